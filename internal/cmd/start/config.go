package start

import (
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/telemetry"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is what the flags of the server say.
type Config struct {
	// BindAddr is where to listen; port 0 picks a free one.
	BindAddr string
	// TLSCertificate and TLSPrivateKey are the server's certificate; empty is HTTP. TLSClientCA and
	// TLSClientAuth (off, request or require) are for those of clients; see certificate.Config.
	TLSCertificate, TLSPrivateKey, TLSClientCA, TLSClientAuth string
	// MaxConns and MaxConnsPerHost bound connections; see server.Config.
	MaxConns, MaxConnsPerHost int
	// DataDir is the installation's directory.
	DataDir string
	// MaxBodySize bounds a request's body, after decompression.
	MaxBodySize flags.Size
	// BytesInFlight, ApplyTimeout, RetryDelay and StandbyTimeout are the loops' settings; see
	// logical.Config.
	BytesInFlight  flags.Size
	ApplyTimeout   time.Duration
	RetryDelay     time.Duration
	StandbyTimeout time.Duration
	// TotalBytesInFlight is what all loops have in flight together.
	TotalBytesInFlight flags.Size
	// TargetConn is the target of the default stream: sqlite:PATH, postgres://… or http(s)://…; empty for the
	// embedded one. It is stored at the first start, and changes what is stored at later ones.
	TargetConn string
	// TargetToken is what an InfluxDB knows us by.
	TargetToken string
	// TargetSchema is the schema of a SQL server that the measurements' tables are in; empty for public.
	TargetSchema string
	// TargetDBConns, StagingSchema and IndexTags are for a SQL server; see postgres.Config.
	TargetDBConns int
	StagingSchema string
	IndexTags     []string
	// QueueDir is where the queues are; empty for replicationq in DataDir.
	QueueDir string
	// SQLiteDir is where database files may lie that come over the API; empty for DataDir.
	// AllowRemoteHosts are the hosts that remotes may name that come over the API; empty for all.
	SQLiteDir        string
	AllowRemoteHosts []string
	// PooledTarget says that a connection pooler in transaction mode stands in front of the SQL server.
	PooledTarget bool
	// IgnoreMissingColumns leaves out values that a table of the user's has no column for.
	IgnoreMissingColumns bool
	// BackfillWindow, FanShards and Immediate choose the mode of the loops; see logical.Config.
	BackfillWindow time.Duration
	FanShards      int
	Immediate      bool
	// QueueSync, MaxQueueSize, QueueFullPolicy and KeepFree are how queues are kept; see queue.Config,
	// queue.Limits and queue.StoreLimits.
	QueueSync       string
	MaxQueueSize    flags.Size
	QueueFullPolicy string
	KeepFree        flags.Size
	// ChaosProb and ChaosSeed let things go wrong on purpose; see package chaos.
	ChaosProb float64
	ChaosSeed uint64
	// InstanceID is the origin that points get which have none, and InstanceTag the key of the tag that it
	// is in; see lineprotocol.AddedTag.
	InstanceID, InstanceTag string
	// TelemetryURL takes reports every TelemetryInterval; empty is off. See telemetry.Config.
	TelemetryURL      string
	TelemetryInterval time.Duration
	// GracePeriod bounds how long a shutdown waits for what is in flight.
	GracePeriod time.Duration
	// LogFormat is text or json.
	LogFormat string
	// Verbose logs details.
	Verbose bool
	// Version is what the server says it is.
	Version string
}

// DefaultConfig returns the configuration without any flag.
func DefaultConfig() Config {
	var c Config
	c.bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// bind defines the flags, with their defaults.
func (c *Config) bind(set *pflag.FlagSet) {
	loop := logical.Config{}.WithDefaults()
	c.MaxBodySize, c.BytesInFlight = 25<<20, flags.Size(loop.BytesInFlight)
	c.MaxQueueSize, c.KeepFree = 4<<30, 64<<20
	c.TotalBytesInFlight = logical.DefaultTotalBytesInFlight
	set.StringVar(&c.BindAddr, "bindAddr", "127.0.0.1:8086", "listen here; port 0 picks a free port")
	set.StringVar(&c.TLSCertificate, "tlsCertificate", "", "speak HTTPS, with the certificate in this file (PEM, with its intermediates); taken again when it is renewed, and at SIGHUP")
	set.StringVar(&c.TLSPrivateKey, "tlsPrivateKey", "", "the private key of --tlsCertificate (PEM)")
	set.StringVar(&c.TLSClientCA, "tlsClientCA", "", "the authorities whose certificates clients may show (PEM)")
	set.StringVar(&c.TLSClientAuth, "tlsClientAuth", "off", "whether clients show a certificate: off, request (verified if they do) or require; a token is needed all the same")
	set.IntVar(&c.MaxConns, "maxConns", 4096, "the most connections that may be open; idle ones give way to new ones")
	set.IntVar(&c.MaxConnsPerHost, "maxConnsPerHost", 0, "the most connections from one remote address; 0 is no limit of its own")
	set.StringVar(&c.DataDir, "dataDir", "./tailrace-data", "queues, token and embedded target live here")
	set.Var(&c.MaxBodySize, "maxBodySize", "the largest body of a write, after decompression")
	set.Var(&c.BytesInFlight, "bytesInFlight", "the most data that a loop holds between queue and target")
	set.Var(&c.TotalBytesInFlight, "totalBytesInFlight", "the most data that all loops together hold; each has 64KiB of it for certain, and borrows at most an eighth of what is left to lend")
	set.DurationVar(&c.ApplyTimeout, "applyTimeout", loop.ApplyTimeout, "the longest that a statement at the target may take")
	set.DurationVar(&c.RetryDelay, "retryDelay", loop.RetryDelay, "the first delay after a failure; grows exponentially, with jitter, up to 30s")
	set.DurationVar(&c.StandbyTimeout, "standbyTimeout", loop.StandbyTimeout, "how often progress is stored and told to the source, at the least")
	set.StringVar(&c.TargetConn, "targetConn", "", "where the default stream goes: postgres://user:password@host/database, sqlite:PATH, or an InfluxDB: http://host:8086?org=ORG&bucket=BUCKET (1.x: ?db=DATABASE&rp=POLICY); it is stored; default is an embedded SQLite file")
	set.StringVar(&c.TargetToken, "targetToken", "", "the token for an InfluxDB; better given in the environment, where other users do not see it; it is stored encrypted")
	set.StringVar(&c.TargetSchema, "targetSchema", "", "the schema for the tables of measurements; default is public. In SQLite it is the first part of their names")
	set.IntVar(&c.TargetDBConns, "targetDBConns", 16, "the most connections to a SQL server")
	set.StringVar(&c.StagingSchema, "stagingSchema", "_tailrace", "where a SQL server keeps consistent points, leases and dead letters")
	set.StringSliceVar(&c.IndexTags, "indexTags", nil, "tags that get an index in new tables; halves the rate of loading")
	set.BoolVar(&c.PooledTarget, "pooledTarget", false, "the SQL server is behind a connection pooler in transaction mode, such as PgBouncer")
	set.BoolVar(&c.IgnoreMissingColumns, "ignoreMissingColumns", false, "leave out values that a table of yours has no column for, instead of waiting for the column")
	set.DurationVar(&c.BackfillWindow, "backfillWindow", 10*time.Minute, "fan out when the oldest write that waits is older than this, and go back to serial below half of it; 0s is never")
	set.IntVar(&c.FanShards, "fanShards", 0, "target transactions in flight in fan mode; 0 is max(4, 2 × CPUs), and at most targetDBConns less three")
	set.BoolVar(&c.Immediate, "immediate", false, "fan out always: faster, in order per key, but readers see writes in part")
	set.StringVar(&c.QueueDir, "queueDir", "", "the queues live here, each in a directory of its own; default is replicationq in the data directory")
	set.StringVar(&c.SQLiteDir, "sqliteDir", "", "remotes that are made over the API may use SQLite files below this directory; default is the data directory")
	set.StringSliceVar(&c.AllowRemoteHosts, "allowRemoteHosts", nil, "remotes that are made over the API may lead to these hosts only: names (*.example.com) at public addresses, addresses or ranges of them (10.0.0.0/8), unix for sockets; default is all but link-local and metadata addresses")
	set.StringVar(&c.QueueSync, "queueSync", "always", "when a write is durable: always (a power cut loses nothing), interval (at most a second) or never (up to the system)")
	set.Var(&c.MaxQueueSize, "maxQueueSize", "the most that may wait in a stream's queue, as stored (a point takes some 20 bytes)")
	set.StringVar(&c.QueueFullPolicy, "queueFullPolicy", "refuse", "when a queue is full: refuse (503), dropOldest or dropNewest; what is dropped is counted and recorded")
	set.Var(&c.KeepFree, "keepFree", "how much of the disk queues leave free; the largest backlog stops first")
	set.StringVar(&c.InstanceID, "instanceID", "", "give points that bear no origin this one, as the tag --instanceTag, so that servers that replicate to each other can leave out what they had from each other")
	set.StringVar(&c.InstanceTag, "instanceTag", "tailrace_origin", "the key of the tag that --instanceID adds")
	set.StringVar(&c.TelemetryURL, "telemetryURL", "", "report every 8 hours how many streams, remotes and bytes in queues there are, the version and the uptime, and nothing else, to this URL; off without one")
	set.DurationVar(&c.TelemetryInterval, "telemetryInterval", telemetry.DefaultInterval, "how often to report to --telemetryURL")
	_ = set.MarkHidden("telemetryInterval") // it is there
	set.DurationVar(&c.GracePeriod, "gracePeriod", 10*time.Second, "how long a shutdown waits for what is in flight")
	set.Float64Var(&c.ChaosProb, "chaosProb", 0, "for tests: the share of calls between queue and target that go wrong on purpose, from 0 to 1")
	set.Uint64Var(&c.ChaosSeed, "chaosSeed", 1, "for tests: which calls --chaosProb strikes")
	set.StringVar(&c.LogFormat, "logFormat", "text", "text or json")
	set.BoolVarP(&c.Verbose, "verbose", "v", false, "log details")
}

var syncModes = map[string]queue.SyncMode{"always": queue.SyncAlways, "interval": queue.SyncInterval, "never": queue.SyncNever}

var policies = map[string]queue.Policy{"refuse": queue.Refuse, "dropOldest": queue.DropOldest, "dropNewest": queue.DropNewest}

// Queue returns the settings of queues.
func (c Config) Queue() queue.Config {
	return queue.Config{
		Sync:   syncModes[c.QueueSync],
		Limits: queue.Limits{MaxBytes: int64(c.MaxQueueSize), Policy: policies[c.QueueFullPolicy]},
	}
}

// Origin returns the tag that points get, or nil.
func (c Config) Origin() (*lineprotocol.AddedTag, error) {
	if c.InstanceID == "" {
		return nil, nil
	}
	return lineprotocol.NewAddedTag(c.InstanceTag, c.InstanceID)
}

// Outbound returns which hosts remotes may lead to that come over the API.
func (c Config) Outbound() (*outbound.Policy, error) { return outbound.NewPolicy(c.AllowRemoteHosts) }

// Loop returns the settings of loops.
func (c Config) Loop() logical.Config {
	return logical.Config{
		BackfillWindow: c.BackfillWindow,
		FanShards:      c.FanShards,
		Immediate:      c.Immediate,
		BytesInFlight:  int64(c.BytesInFlight),
		ApplyTimeout:   c.ApplyTimeout,
		RetryDelay:     c.RetryDelay,
		StandbyTimeout: c.StandbyTimeout,
		OnReject:       logical.RejectDeadLetter,
	}
}

// Validate reports the first flag that cannot work.
func (c Config) Validate() error {
	switch {
	case c.LogFormat != "text" && c.LogFormat != "json":
		return errors.Errorf("--logFormat: %q is unknown; give text or json", c.LogFormat)
	case !has(syncModes, c.QueueSync):
		return errors.Errorf("--queueSync: %q is unknown; give always, interval or never", c.QueueSync)
	case !has(policies, c.QueueFullPolicy):
		return errors.Errorf("--queueFullPolicy: %q is unknown; give refuse, dropOldest or dropNewest", c.QueueFullPolicy)
	case c.MaxConns < 1:
		return errors.Errorf("--maxConns: %d is too few; give at least 1", c.MaxConns)
	case c.MaxConnsPerHost < 0:
		return errors.Errorf("--maxConnsPerHost: %d is negative; 0 is no limit", c.MaxConnsPerHost)
	case c.TLSCertificate == "" && c.TLSPrivateKey == "" && (c.TLSClientCA != "" || c.TLSClientAuth != "off"):
		return errors.New("--tlsClientCA and --tlsClientAuth need --tlsCertificate and --tlsPrivateKey")
	case c.MaxQueueSize < 1<<20:
		return errors.Errorf("--maxQueueSize: %d bytes is too small; give at least 1MiB", int64(c.MaxQueueSize))
	case c.MaxBodySize < 1<<10:
		return errors.Errorf("--maxBodySize: %d bytes is too small; give at least 1KiB", int64(c.MaxBodySize))
	case c.GracePeriod < 0:
		return errors.Errorf("--gracePeriod: %s is negative", c.GracePeriod)
	case c.ApplyTimeout <= 0, c.RetryDelay <= 0, c.StandbyTimeout <= 0:
		return errors.New("--applyTimeout, --retryDelay and --standbyTimeout must be more than 0s")
	case c.TargetDBConns < 3:
		return errors.Errorf("--targetDBConns: %d is too few; give at least 3, of which two or three are for leases, memos and tables", c.TargetDBConns)
	case c.ChaosProb < 0 || c.ChaosProb > 1 || c.ChaosProb != c.ChaosProb:
		return errors.Errorf("--chaosProb: %g is no share; give a number from 0 to 1", c.ChaosProb)
	case c.StagingSchema == "":
		return errors.New("--stagingSchema: name a schema")
	case c.DataDir == "":
		return errors.New("--dataDir: name a directory")
	}
	if _, err := certificate.ParseClientAuth(c.TLSClientAuth); err != nil {
		return errors.WithMessage(err, "--tlsClientAuth")
	}
	if c.TelemetryURL != "" {
		if err := telemetry.ValidateURL(c.TelemetryURL); err != nil {
			return errors.WithMessage(err, "--telemetryURL")
		}
	}
	if c.TelemetryInterval <= 0 {
		return errors.Errorf("--telemetryInterval: %s is too short", c.TelemetryInterval)
	}
	if _, err := c.Origin(); err != nil {
		return errors.WithMessage(err, "--instanceID, --instanceTag")
	}
	if _, err := c.Outbound(); err != nil {
		return errors.WithMessage(err, "--allowRemoteHosts")
	}
	if c.BindAddr == "" {
		return errors.New("--bindAddr: give an address such as 127.0.0.1:8086")
	}
	if c.BytesInFlight == 0 {
		return errors.Errorf("--bytesInFlight: give at least %d", logical.MinBytesInFlight)
	}
	if c.TotalBytesInFlight < logical.MinBytesInFlight {
		return errors.Errorf("--totalBytesInFlight: give at least %d", logical.MinBytesInFlight)
	}
	if err := c.Loop().Validate(); err != nil {
		return errors.Errorf("--%s", err)
	}
	return c.validateTarget()
}

// validateTarget refuses what the target would pass over in silence. Without --targetConn it is not known
// here what is stored, if anything is.
func (c Config) validateTarget() error {
	if _, err := os.Stat(filepath.Join(c.DataDir, metadataFile)); err == nil && c.TargetConn == "" {
		return nil
	}
	target, err := c.targetConn()
	if err != nil {
		return err
	}
	kind := target.address.Kind
	if c.TargetToken != "" && kind != remote.Influx {
		return errors.New("--targetToken is for an InfluxDB; leave it out, or name one with --targetConn")
	}
	if kind == remote.Postgres {
		return nil
	}
	stays := "is for SQL servers, and the target is SQLite; leave it out, or name a server with --targetConn"
	if kind == remote.Influx {
		stays = "is for SQL targets, and the target is an InfluxDB; leave it out"
	}
	switch {
	case kind == remote.Influx && c.TargetSchema != "":
		return errors.New("--targetSchema " + stays)
	case kind == remote.Influx && c.IgnoreMissingColumns:
		return errors.New("--ignoreMissingColumns " + stays)
	case c.PooledTarget:
		return errors.New("--pooledTarget " + stays)
	case len(c.IndexTags) > 0:
		return errors.New("--indexTags " + stays)
	case c.StagingSchema != DefaultConfig().StagingSchema:
		return errors.New("--stagingSchema " + stays)
	}
	return nil
}

func has[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}
