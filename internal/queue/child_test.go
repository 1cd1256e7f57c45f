//go:build !linux

package queue

import "testing"

const childEnv = "TAILRACE_QUEUE_CHILD"

func runChild(string) {}

func dropCache(b *testing.B, _ string) { b.Skip("the cache can only be dropped on linux") }
