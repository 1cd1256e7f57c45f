package start

import (
	"context"
	"log/slog"

	"github.com/google/wire"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/logical"
)

// What an installation without configuration has.
const (
	// DefaultBucket is the bucket that a new installation has.
	DefaultBucket = "default"
	// DefaultStream is the stream of that bucket.
	DefaultStream = "default"
	// EmbeddedTarget is the file name of the embedded database in the data directory.
	EmbeddedTarget = "target.db"
)

// Providers make the server from a Config.
var Providers = wire.NewSet(
	NewServer, ProvideLog, ProvideInstallation, ProvideOperator, ProvideRegistry, ProvideLoopMetrics,
	ProvideFactory, ProvideTally, ProvideDeadLetters, ProvideTarget, ProvideStore, ProvideStreams,
	ProvideCertificate, ProvideHTTP,
)

// Operator is who may do everything.
type Operator struct {
	// Token is the operator's token, and Path its file.
	Token, Path string
}

// Target is the target of the default stream, with the name that people know it by.
type Target struct {
	logical.Target
	Name string
}

// ProvideLog makes the log.
func ProvideLog(config Config, w LogOutput) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: plainErrors}
	if config.Verbose {
		options.Level = slog.LevelDebug
	}
	if config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// plainErrors logs an error by its message: the stack that it carries is for a debugger.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// ProvideInstallation opens the data directory.
func ProvideInstallation(config Config, log *slog.Logger) (*installation.Installation, func(), error) {
	in, err := installation.Open(config.DataDir)
	if err != nil {
		return nil, nil, err
	}
	return in, func() {
		if err := in.Close(); err != nil {
			log.Warn("stopping", "error", err)
		}
	}, nil
}

// ProvideOperator reads the operator's token, or makes one.
func ProvideOperator(in *installation.Installation) (Operator, error) {
	token, path, err := in.Token()
	return Operator{Token: token, Path: path}, err
}

// ProvideRegistry makes the registry of all metrics.
func ProvideRegistry() (*prometheus.Registry, error) {
	reg := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return reg, nil
}

// ProvideLoopMetrics makes the loops' metrics.
func ProvideLoopMetrics(reg *prometheus.Registry) (*loops.Metrics, error) {
	return loops.NewMetrics(reg)
}

// ProvideFactory makes the factory of loops.
func ProvideFactory(config Config, in *installation.Installation, log *slog.Logger, metrics *loops.Metrics) (*loops.Factory, error) {
	if config.ChaosProb > 0 {
		log.Warn("things go wrong on purpose", "chaosProb", config.ChaosProb, "chaosSeed", config.ChaosSeed)
	}
	return loops.NewFactory(loops.FactoryConfig{
		Holder: in.ID(), Log: log, Metrics: metrics, BytesInFlight: int64(config.TotalBytesInFlight),
		Chaos: chaos.New(chaos.Config{Prob: config.ChaosProb, Seed: config.ChaosSeed}),
	})
}

// ProvideTally makes the counts that all targets share.
func ProvideTally(reg *prometheus.Registry) (*tally.Tally, error) {
	counts := &tally.Tally{}
	return counts, reg.Register(counts.Collector())
}

// ProvideDeadLetters makes the store for the dead letters of targets that keep none.
func ProvideDeadLetters(in *installation.Installation, log *slog.Logger) (*deadletter.Store, func(), error) {
	store, err := deadletter.Open(deadletter.Config{Path: in.Path(deadletter.FileName)})
	if err != nil {
		return nil, nil, err
	}
	return store, func() {
		if err := store.Close(); err != nil {
			log.Warn("closing the dead letters", "error", err)
		}
	}, nil
}

// ProvideTarget opens the target of the default stream.
func ProvideTarget(
	ctx context.Context, config Config, in *installation.Installation, letters *deadletter.Store, log *slog.Logger, counts *tally.Tally,
) (Target, func(), error) {
	target, err := openTarget(ctx, config, in, letters, log, counts)
	if err != nil {
		return Target{}, nil, err
	}
	return target, func() {
		if err := target.Close(); err != nil {
			log.Warn("closing the target", "error", err)
		}
	}, nil
}

// ProvideStore opens the directory of the queues.
func ProvideStore(config Config, in *installation.Installation, log *slog.Logger) (*queue.Store, func(), error) {
	store, err := queue.OpenStore(queue.StoreConfig{
		Dir: in.Path("replicationq"), Limits: queue.StoreLimits{KeepFree: int64(config.KeepFree)},
	})
	if err != nil {
		return nil, nil, err
	}
	return store, func() {
		if err := store.Close(); err != nil {
			log.Warn("closing the queues", "error", err)
		}
	}, nil
}

// ProvideStreams makes the default bucket with its stream.
func ProvideStreams(
	config Config, in *installation.Installation, store *queue.Store, factory *loops.Factory, target Target, log *slog.Logger,
	reg *prometheus.Registry,
) (*influxlogical.Streams, func(), error) {
	streams := influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: store, Installation: in.ID(), Log: log})
	if err := reg.Register(streams.Collector()); err != nil {
		return nil, nil, err
	}
	if remote, ok := target.Target.(interface{ Collector() prometheus.Collector }); ok {
		if err := reg.Register(remote.Collector()); err != nil {
			return nil, nil, err
		}
	}
	_, err := streams.Add(influxlogical.StreamConfig{
		ID: DefaultStream, Bucket: DefaultBucket, Target: target.Target, Schema: config.TargetSchema, Loop: config.Loop(),
		Queue: config.Queue(),
	})
	if err != nil {
		return nil, nil, err
	}
	// The server has closed them already, unless it never came to run.
	return streams, func() {
		ctx, cancel := context.WithTimeout(context.Background(), config.GracePeriod)
		defer cancel()
		if err := streams.Close(ctx); err != nil {
			log.Warn("closing the streams", "error", err)
		}
	}, nil
}

// ProvideHTTP makes the HTTP server.
func ProvideHTTP(
	config Config, operator Operator, streams *influxlogical.Streams, keeper *certificate.Keeper, log *slog.Logger,
	reg *prometheus.Registry,
) (*server.Server, error) {
	origin, err := config.Origin()
	if err != nil {
		return nil, err
	}
	in := intake{streams, new(trouble)}
	return server.New(server.Config{
		BindAddr: config.BindAddr, TLS: tlsOf(keeper), MaxConns: config.MaxConns, MaxConnsPerHost: config.MaxConnsPerHost,
		MaxBodySize: int64(config.MaxBodySize), Version: config.Version, Origin: origin,
	}, server.Deps{
		Intake: in, Health: in, Registerer: reg, Gatherer: reg, Log: log,
		Authorizer: server.NewTokens(map[string]server.Principal{operator.Token: {Name: "operator", Manage: true}}),
	})
}
