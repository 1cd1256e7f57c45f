package start

import (
	"context"
	"log/slog"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/telemetry"
)

// ProvideTelemetry makes who reports, and says so in the log; the result is nil if nobody does.
func ProvideTelemetry(
	config Config, service *replication.Service, streams *influxlogical.Streams, log *slog.Logger,
) (*telemetry.Reporter, error) {
	if config.TelemetryURL == "" {
		return nil, nil
	}
	log.Info("telemetry is on: how many streams, remotes and bytes in queues there are, the version and the uptime are reported",
		"every", config.TelemetryInterval)
	return telemetry.New(telemetry.Config{
		URL: config.TelemetryURL, Interval: config.TelemetryInterval, Version: config.Version, Log: log,
		Counts: func() telemetry.Counts {
			var c telemetry.Counts
			if remotes, err := service.Remotes(context.Background(), metadata.RemoteFilter{}); err == nil {
				c.Remotes = len(remotes)
			}
			for _, stream := range streams.All() {
				c.Streams++
				c.QueueBytes += stream.Status().Queue.UnsentBytes
			}
			return c
		},
	})
}
