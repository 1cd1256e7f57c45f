package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type metrics struct {
	requests       *prometheus.CounterVec
	durations      *prometheus.HistogramVec
	pointsAccepted prometheus.Counter
	pointsRefused  prometheus.Counter
	bytesRead      prometheus.Counter
	bytesAccepted  prometheus.Counter
	bodyMemory     prometheus.GaugeFunc
	conns          prometheus.GaugeFunc
	connsRefused   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, b *budget, conns *connections) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tailrace", Name: name, Help: help})
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tailrace", Name: "http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tailrace", Name: "http_request_duration_seconds", Help: "Time from a request's header to its answer, by route and status.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"route", "status"}),
		pointsAccepted: counter("intake_points_accepted_total", "Points that were made durable and acknowledged."),
		pointsRefused:  counter("intake_points_refused_total", "Lines that were refused because they are malformed."),
		bytesRead:      counter("intake_read_bytes_total", "Bytes of bodies that were read to their end, after decompression."),
		bytesAccepted:  counter("intake_accepted_bytes_total", "Bytes of normalised lines that were made durable and acknowledged."),
		bodyMemory: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "tailrace", Name: "intake_body_memory_bytes", Help: "Memory that the writes under way have reserved.",
		}, func() float64 { return float64(b.used()) }),
	}
	m.conns = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "tailrace", Name: "http_connections", Help: "Connections that are open.",
	}, func() float64 { return float64(conns.count()) })
	m.connsRefused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "tailrace", Name: "http_connections_refused_total", Help: "Connections that were refused, by the limit that stood against them.",
	}, []string{"limit"})
	for _, limit := range []string{"all", "host"} {
		m.connsRefused.WithLabelValues(limit)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.durations, m.pointsAccepted, m.pointsRefused, m.bytesRead, m.bytesAccepted, m.bodyMemory,
		m.conns, m.connsRefused,
	} {
		if err := reg.Register(c); err != nil {
			return nil, errors.Wrap(err, "server: register metrics")
		}
	}
	return m, nil
}

func (m *metrics) observe(route string, status int, took time.Duration) {
	text := strconv.Itoa(status)
	m.requests.WithLabelValues(route, text).Inc()
	m.durations.WithLabelValues(route, text).Observe(took.Seconds())
}

// metricsHandler answers /metrics.
func metricsHandler(g prometheus.Gatherer) handler {
	const atOnce = 8 // Gathering costs more than asking for it, and needs no token.
	h := promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: atOnce})
	return func(w http.ResponseWriter, r *http.Request) *problem {
		h.ServeHTTP(w, r)
		return nil
	}
}
