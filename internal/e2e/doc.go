// Package e2e tests the binary as a user runs it: as a process, over HTTP, with real signals.
package e2e
