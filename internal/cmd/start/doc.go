// Package start is the command that runs the server: it puts the parts together (see Providers, which
// wire.go at the root of the module uses), says where to write, and on a signal drains and stops.
package start
