package api

import (
	_ "embed" // for the document
	"net/http"
)

// Document is the description of the API in the form of OpenAPI 3.
//
//go:embed openapi.yaml
var Document []byte

func openAPI(c *call) error {
	c.w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(Document) // there is nobody to tell if that fails
	return nil
}
