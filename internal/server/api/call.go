package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

// A call is one request, with who sent it.
type call struct {
	*http.Request
	w   http.ResponseWriter
	who server.Principal
}

// answer writes a document, indented with tabs as InfluxDB does. There is nobody to tell if that fails.
func (c *call) answer(status int, v any) error {
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(status)
	enc := json.NewEncoder(c.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	_ = enc.Encode(v)
	return nil
}

// done answers that there is nothing to say.
func (c *call) done() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// decode reads the body. Fields that are not known are left out, as InfluxDB does.
func (c *call) decode(v any) error {
	text, err := io.ReadAll(c.Body)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "failed to unmarshal json: %v", err)
	}
	return nil
}

// pathID returns the id in the path.
func (c *call) pathID(kind metadata.Kind) (metadata.ID, error) {
	id, err := metadata.ParseID(c.PathValue("id"))
	if err != nil {
		name := string(kind)
		if kind == metadata.KindRemote {
			name = "remote-connection" // InfluxDB's word
		}
		return 0, refuse(http.StatusBadRequest, "%s ID is invalid: %v", name, err)
	}
	return id, nil
}

// queryID returns the id in a parameter, or 0 if there is none.
func (c *call) queryID(name string) (metadata.ID, error) {
	text := c.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	id, err := metadata.ParseID(text)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "parameter %s is invalid: %v", name, err)
	}
	return id, nil
}

// orgID returns the organisation that has to be named.
func (c *call) orgID() (metadata.ID, error) {
	id, err := metadata.ParseID(c.URL.Query().Get("orgID"))
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "invalid or missing org ID: give the parameter orgID")
	}
	return id, nil
}

// page returns how much of a list is asked for.
func (c *call) page() (offset, limit int, err error) {
	const all = 1 << 30
	number := func(name string, otherwise int) int {
		text := c.URL.Query().Get(name)
		if text == "" || err != nil {
			return otherwise
		}
		n, bad := strconv.Atoi(text)
		if bad != nil || n < 0 {
			err = refuse(http.StatusBadRequest, "parameter %s is no number", name)
		}
		return n
	}
	offset, limit = number("offset", 0), number("limit", all)
	if limit == 0 {
		limit = all
	}
	return offset, limit, err
}

// cut returns a page of a list, which is never null.
func cut[T any](list []T, offset, limit int) []T {
	offset = min(offset, len(list))
	return append([]T{}, list[offset:offset+min(len(list)-offset, limit)]...)
}

// may asks for permission.
func (c *call) may(action string, r server.Resource) error {
	if c.who.May(action, r) {
		return nil
	}
	what := r.Type
	if r.ID != "" {
		what += "/" + r.ID
	}
	return refuse(http.StatusForbidden, "the token may not do this: it lacks %s:%s", action, what)
}

func resource(kind string, id, org metadata.ID) server.Resource {
	r := server.Resource{Type: kind}
	if id != 0 {
		r.ID = id.String()
	}
	if org != 0 {
		r.OrgID = org.String()
	}
	return r
}

// refuse makes an error of the client's.
func refuse(status int, format string, args ...any) error {
	return &server.Failure{Status: status, Message: errors.Errorf(format, args...).Error()}
}

// failure words the errors of the service.
func failure(err error) error {
	var (
		notFound *metadata.NotFoundError
		conflict *metadata.ConflictError
		inUse    *metadata.InUseError
		invalid  *metadata.InvalidError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &notFound):
		return refuse(http.StatusNotFound, "%s", notFound.Error())
	case errors.As(err, &conflict):
		return &server.Failure{Status: http.StatusUnprocessableEntity, Code: "conflict", Message: conflict.Error()}
	case errors.As(err, &inUse):
		return &server.Failure{Status: http.StatusUnprocessableEntity, Code: "conflict", Message: inUse.Error()}
	case errors.As(err, &invalid):
		return refuse(http.StatusBadRequest, "%s", invalid.Error())
	}
	return err
}

// given turns what a body refers to and what does not exist into a fault of the body.
func given(err error) error {
	if notFound := new(metadata.NotFoundError); errors.As(err, &notFound) {
		return refuse(http.StatusBadRequest, "%s", notFound.Error())
	}
	return err
}
