//go:build wireinject

package main

import (
	"context"

	"github.com/google/wire"

	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
)

// initServer makes the server of a configuration, and what frees it.
func initServer(ctx context.Context, config start.Config, logs start.LogOutput) (*start.Server, func(), error) {
	panic(wire.Build(start.Providers))
}
