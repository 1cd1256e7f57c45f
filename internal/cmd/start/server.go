package start

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

// Server is the running server.
type Server struct {
	config       Config
	log          *slog.Logger
	installation *installation.Installation
	operator     Operator
	target       Target
	streams      *influxlogical.Streams
	certificate  *certificate.Keeper // nil without TLS
	http         *server.Server
}

// NewServer puts the parts together.
func NewServer(
	config Config, log *slog.Logger, in *installation.Installation, operator Operator, target Target,
	streams *influxlogical.Streams, keeper *certificate.Keeper, http *server.Server,
) *Server {
	return &Server{
		config: config, log: log, installation: in, operator: operator, target: target, streams: streams, certificate: keeper, http: http,
	}
}

// Addr returns the address that the server listens on, once it is ready.
func (s *Server) Addr() net.Addr { return s.http.Addr() }

// Token returns the operator's token.
func (s *Server) Token() string { return s.operator.Token }

// Streams returns the streams.
func (s *Server) Streams() *influxlogical.Streams { return s.streams }

// Run serves until ctx ends, and then drains. It calls ready when it listens.
func (s *Server) Run(ctx context.Context, ready func()) error {
	if err := s.http.Listen(); err != nil {
		_ = s.close() // the first error says more
		return err
	}
	s.log.Info("listening", "address", s.Addr().String(), "installation", s.installation.ID(),
		"dataDir", s.installation.Dir(), "target", s.target.Name, "tls", s.certificate != nil)
	if s.certificate != nil {
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { s.watchCertificate(watching) })
		defer watch.Wait()
		defer stop()
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve() }()
	ready()
	var failure error
	select {
	case <-ctx.Done():
		s.log.Info("stopping: no more writes are taken; waiting for what is in flight", "gracePeriod", s.config.GracePeriod)
	case failure = <-served:
	}
	if err := s.close(); failure == nil {
		failure = err
	}
	s.log.Info("stopped")
	return failure
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
	if err := s.streams.Close(ctx); err != nil {
		return errors.WithMessage(err, "stopping")
	}
	for _, stream := range s.streams.All() {
		st := stream.Status()
		s.log.Info("stream stopped", "stream", st.ID, "unsentBytes", st.Queue.UnsentBytes, "took", time.Since(begun).Round(time.Millisecond))
	}
	return nil
}

// Greet says where to write.
func (s *Server) Greet(w io.Writer) {
	url := s.url() + "/api/v2/write?bucket=" + DefaultBucket
	_, _ = fmt.Fprintf(w, `Tailrace is ready.

  write to  %s
  token     %s
  target    %s

Try it:

  curl -i%s '%s' \
    -H "Authorization: Token $(cat %s)" \
    --data-binary 'weather,city=Bern temperature=21.5'

Ctrl-C stops it.
`, url, s.operator.Path, s.target.Name, s.curlOptions(), url, quoteShell(s.operator.Path))
}

// quoteShell quotes a path for a shell, where it needs it.
func quoteShell(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
