// Package remote knows what a remote's address means: which kind of target it is, what is secret about
// it, who may name it, and how it is opened.
//
// The kind is the URL's scheme:
//
//	https://host:8086/prefix           another InfluxDB; also http://
//	postgres://user@host/database      PostgreSQL or CockroachDB; the secret is the password
//	sqlite:file.db                     a file; a relative path lies in the data directory
//
// A password that stands in an address is taken out and becomes the secret (see [Parse]), so that it is
// in no answer, log line or file. Addresses that come over the API are limited by [Limits].
//
// Streams that share a connection share its target: a [Pool] opens it for the first of them, and closes
// it after the last one.
package remote
