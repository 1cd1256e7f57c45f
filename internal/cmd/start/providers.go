package start

import (
	"context"
	"crypto/sha256"
	stderrors "errors"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/google/wire"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/server/api"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
)

// EmbeddedTarget is the file name of the embedded database in the data directory.
const EmbeddedTarget = "target.db"

// metadataFile is the file name of what is stored of the installation.
const metadataFile = "metadata.db"

// Providers make the server from a Config.
var Providers = wire.NewSet(
	NewServer, ProvideLog, ProvideInstallation, ProvideOperator, ProvideRegistry, ProvideLoopMetrics,
	ProvideFactory, ProvideTally, ProvideDeadLetters, ProvideOpener, ProvideStore, ProvideStreams,
	ProvideMetadata, ProvideReplication, ProvideCertificate, ProvideTelemetry, ProvideBackup, ProvideHTTP,
)

// Operator is who may do everything.
type Operator struct {
	// Token is the operator's token, and Path its file.
	Token, Path string
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
	if mode, open, err := in.OpenToOthers(); err != nil {
		return nil, nil, stderrors.Join(err, in.Close())
	} else if open {
		log.Warn("others may look into the data directory, where points are kept in clear; take their rights away with chmod 700",
			"dir", in.Dir(), "mode", mode.String())
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
	return tally.Register(reg)
}

// ProvideDeadLetters opens the store for targets that keep no dead letters themselves.
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

// ProvideStore opens the directory of the queues.
func ProvideStore(config Config, in *installation.Installation, log *slog.Logger) (*queue.Store, func(), error) {
	dir := config.QueueDir
	if dir == "" {
		dir = in.Path("replicationq")
	}
	store, err := queue.OpenStore(queue.StoreConfig{
		Dir: dir, Limits: queue.StoreLimits{KeepFree: int64(config.KeepFree)},
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

// ProvideStreams makes the installation's streams, of which there are none yet.
func ProvideStreams(
	config Config, in *installation.Installation, store *queue.Store, factory *loops.Factory, log *slog.Logger, reg *prometheus.Registry,
) (*influxlogical.Streams, func(), error) {
	streams := influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: store, Installation: in.ID(), Log: log})
	for _, c := range []prometheus.Collector{streams.Collector(), streams.RemoteCollector()} {
		if err := reg.Register(c); err != nil {
			return nil, nil, err
		}
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

// ProvideMetadata opens what is stored of the installation.
func ProvideMetadata(ctx context.Context, in *installation.Installation, log *slog.Logger) (*metadata.Store, func(), error) {
	key, err := in.SecretKey()
	if err != nil {
		return nil, nil, err
	}
	store, err := metadata.Open(ctx, metadata.Config{Path: in.Path(metadataFile), Key: key})
	if err != nil {
		return nil, nil, err
	}
	return store, func() {
		if err := store.Close(); err != nil {
			log.Warn("closing the metadata", "error", err)
		}
	}, nil
}

// reserved are the installation's own names in the data directory.
var reserved = []string{
	metadataFile, "deadletters.db", "replicationq", "secret.key", "token", "lock", "installation.json",
	"listening.json", "restoring",
}

// ProvideReplication starts what is stored, and on an empty data directory a default stream.
func ProvideReplication(
	ctx context.Context, config Config, in *installation.Installation, store *metadata.Store, streams *influxlogical.Streams,
	open remote.Opener, log *slog.Logger,
) (*replication.Service, func(), error) {
	if err := checkTargetConn(ctx, config, open); err != nil {
		return nil, nil, err
	}
	if _, err := seed(ctx, config, store, log); err != nil {
		return nil, nil, err
	}
	limits, err := limits(config, in)
	if err != nil {
		return nil, nil, err
	}
	service := replication.New(replication.Config{
		Installation: in.ID(), Store: store, Streams: streams, Open: open, Loop: config.Loop(), Queue: config.Queue(), Log: log,
		Limits: limits,
	})
	if err := service.Start(ctx); err != nil {
		service.Close()
		return nil, nil, err
	}
	return service, service.Close, nil
}

// limits are those for remotes that come over the API.
func limits(config Config, in *installation.Installation) (l remote.Limits, err error) {
	l = remote.Limits{SQLiteDir: config.SQLiteDir, DataDir: in.Dir(), Reserved: reserved}
	if l.SQLiteDir == "" {
		l.SQLiteDir = in.Dir()
	}
	for _, file := range []string{config.QueueDir, config.TLSCertificate, config.TLSPrivateKey, config.TLSClientCA} {
		if file == "" {
			continue
		}
		if file, err = filepath.Abs(file); err != nil {
			return l, errors.WithStack(err)
		}
		l.Reserved = append(slices.Clone(l.Reserved), file)
	}
	l.Outbound, err = config.Outbound()
	return l, err
}

// ProvideHTTP makes the HTTP server.
func ProvideHTTP(
	config Config, operator Operator, streams *influxlogical.Streams, service *replication.Service,
	keeper *certificate.Keeper, backup api.Backup, log *slog.Logger, reg *prometheus.Registry,
) (*server.Server, error) {
	origin, err := config.Origin()
	if err != nil {
		return nil, err
	}
	in := intake{streams, service, sha256.Sum256([]byte(operator.Token)), newTrouble()}
	return server.New(server.Config{
		BindAddr: config.BindAddr, TLS: tlsOf(keeper), MaxConns: config.MaxConns, MaxConnsPerHost: config.MaxConnsPerHost,
		MaxBodySize: int64(config.MaxBodySize), Version: config.Version, Origin: origin,
	}, server.Deps{
		Intake: in, Health: in, Databases: in, Registerer: reg, Gatherer: reg, Log: log, Authorizer: in,
		Routes: api.New(service, backup).Routes(),
	})
}
