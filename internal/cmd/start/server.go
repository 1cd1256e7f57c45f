package start

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	neturl "net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/telemetry"
)

// Server is the running server.
type Server struct {
	config       Config
	log          *slog.Logger
	installation *installation.Installation
	operator     Operator
	streams      *influxlogical.Streams
	certificate  *certificate.Keeper // nil without TLS
	service      *replication.Service
	telemetry    *telemetry.Reporter // nil without a URL
	http         *server.Server
}

// NewServer puts the parts together.
func NewServer(
	config Config, log *slog.Logger, in *installation.Installation, operator Operator,
	streams *influxlogical.Streams, service *replication.Service, keeper *certificate.Keeper,
	reporter *telemetry.Reporter, http *server.Server,
) *Server {
	return &Server{
		config: config, log: log, installation: in, operator: operator, streams: streams, service: service,
		certificate: keeper, telemetry: reporter, http: http,
	}
}

// Addr returns the address that the server listens on, once it is ready.
func (s *Server) Addr() net.Addr { return s.http.Addr() }

// Token returns the operator's token.
func (s *Server) Token() string { return s.operator.Token }

// Streams returns the streams.
func (s *Server) Streams() *influxlogical.Streams { return s.streams }

// probeEvery is how often remotes that are away are asked whether they are back.
const probeEvery = 2 * time.Second

// Run serves until ctx ends, and then drains. It calls ready when it listens.
func (s *Server) Run(ctx context.Context, ready func()) error {
	if err := s.http.Listen(); err != nil {
		_ = s.close() // the first error says more
		return err
	}
	withdraw, err := s.announce()
	if err != nil {
		_ = s.close() // the first error says more
		return err
	}
	defer withdraw()
	s.log.Info("listening", "address", s.Addr().String(), "installation", s.installation.ID(),
		"dataDir", s.installation.Dir(), "streams", len(s.streams.All()), "tls", s.certificate != nil)
	var beside sync.WaitGroup
	defer beside.Wait()
	besides, stop := context.WithCancel(ctx)
	defer stop()
	if s.certificate != nil {
		beside.Go(func() { s.watchCertificate(besides) })
	}
	if s.telemetry != nil {
		beside.Go(func() { s.telemetry.Run(besides) })
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve() }()
	probing, endProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { s.streams.Probe(probing, probeEvery) })
	ready()
	var failure error
	select {
	case <-ctx.Done():
		s.log.Info("stopping: no more writes are taken; waiting for what is in flight", "gracePeriod", s.config.GracePeriod)
	case failure = <-served:
	}
	endProbing()
	probes.Wait()
	if err := s.close(); failure == nil {
		failure = err
	}
	s.log.Info("stopped")
	return failure
}

// announce tells commands beside the data directory where the server listens, until withdraw is called.
func (s *Server) announce() (withdraw func(), err error) {
	remove, err := s.installation.Announce(installation.Listening{
		URL: s.url(), Address: s.Addr().String(), TLS: s.certificate != nil, PID: os.Getpid(),
	})
	return func() {
		if err := remove(); err != nil {
			s.log.Warn("stopping", "error", err)
		}
	}, err
}

// close ends the intake first, so that what has been answered is in the queues, and then the loops.
func (s *Server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.GracePeriod)
	defer cancel()
	begun := time.Now()
	// A request that hangs must not take the time that the loops need.
	requests, cut := context.WithTimeout(ctx, s.config.GracePeriod/2)
	defer cut()
	err := s.http.Shutdown(requests)
	if err != nil {
		s.log.Warn("requests were cut off", "error", err)
	}
	s.service.Close() // nothing is started any more
	if err := s.streams.Close(ctx); err != nil {
		return errors.WithMessage(err, "stopping")
	}
	for _, stream := range s.streams.All() {
		st := stream.Status()
		s.log.Info("stream stopped", "stream", st.ID, "name", st.Name, "unsentBytes", st.Queue.UnsentBytes, "took", time.Since(begun).Round(time.Millisecond))
	}
	return nil
}

// Greet says where to write.
func (s *Server) Greet(w io.Writer) {
	bucket, target := s.shown()
	url := s.url() + "/api/v2/write?bucket=" + neturl.QueryEscape(bucket)
	_, _ = fmt.Fprintf(w, `Tailrace is ready.

  write to  %s
  token     %s
  target    %s

Try it:

  curl -i%s '%s' \
    -H "Authorization: Token $(cat %s)" \
    --data-binary 'weather,city=Bern temperature=21.5'

Ctrl-C stops it.
`, url, s.operator.Path, target, s.curlOptions(), url, quoteShell(s.operator.Path))
}

// shown returns the bucket that people are told to write to, and where that goes: the oldest one that has
// a stream.
func (s *Server) shown() (bucket, target string) {
	ctx := context.Background()
	for _, b := range s.service.Buckets() {
		streams, err := s.service.Streams(ctx, metadata.StreamFilter{BucketID: b.ID})
		if err != nil || len(streams) == 0 {
			continue
		}
		if r, err := s.service.Remote(ctx, streams[0].RemoteID); err == nil {
			return b.Name, shown(r.URL, s.installation.Dir())
		}
	}
	return "BUCKET", "none yet: create a bucket, a remote and a replication"
}

// quoteShell quotes a path for a shell, where it needs it.
func quoteShell(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
