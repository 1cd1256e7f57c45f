// Package api is the REST API of remotes and replications, in the words of InfluxDB 2.x: organisations,
// buckets, authorizations, remotes, replications, and what Tailrace adds to them. docs/http-api.md is
// the same for users, and openapi.yaml, which is served at /api/v2/openapi.yaml, for programs; a test
// holds all three against the handlers.
//
// It decodes requests, asks for permission, calls a [replication.Service], and words the answer. What it
// adds to InfluxDB's documents are further fields and routes; no field has another name or meaning.
package api
