// Package connect finds the server that a command is about: by flags, by the environment, or by the data
// directory next to it.
package connect
