module github.com/tailrace-cdc/tailrace

go 1.26

require (
	github.com/cockroachdb/apd/v3 v3.2.3 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)
