package server

import (
	"math/rand/v2"
	"net/http"
	"strconv"
)

// setHeaders sets what every answer carries.
func setHeaders(h http.Header, r *http.Request, version string) {
	id := requestID(r)
	h.Set("X-Influxdb-Version", version)
	h.Set("X-Influxdb-Build", "OSS") // Clients tell products of InfluxDB by it; this is the API that we speak.
	h.Set("Request-Id", id)
	h.Set("X-Request-Id", id)
}

// requestID returns the id that the client gave, if it is decent, or a new one.
func requestID(r *http.Request) string {
	const longest = 128
	for _, name := range []string{"X-Request-Id", "Request-Id"} {
		if id := r.Header.Get(name); id != "" && len(id) <= longest && headerText(id) == id {
			return id
		}
	}
	return strconv.FormatUint(rand.Uint64()|1<<63, 16)
}
