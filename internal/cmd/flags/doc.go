// Package flags is what the commands' flags have in common: each can also be given as an environment
// variable, TAILRACE_ and its name in upper snake case (--bindAddr is TAILRACE_BIND_ADDR), and sizes
// are written as people write them (10MiB).
package flags
