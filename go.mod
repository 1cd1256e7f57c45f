module github.com/tailrace-cdc/tailrace

go 1.26
