// Package stream has the commands about the streams of a running server.
package stream
