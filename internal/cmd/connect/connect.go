package connect

import (
	"context"
	"crypto/tls"
	"os"

	"github.com/pkg/errors"
	"github.com/shirou/gopsutil/v4/process"
	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/installation"
)

// Flags say which server, and who asks.
type Flags struct {
	// Host is the server's URL; empty for the one that uses DataDir.
	Host string
	// Token is what the server knows us by; empty for the one in DataDir.
	Token string
	// DataDir is a data directory on this machine.
	DataDir string
	// Org is the organisation, by id or name; empty for the only one.
	Org string
	// TLS and SkipVerify say how a server of https:// is trusted.
	TLS        flags.ClientTLS
	SkipVerify bool
}

// Bind defines the flags. It is called once, for all commands of a group.
func (f *Flags) Bind(set *pflag.FlagSet) {
	f.BindServer(set)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&f.Org, "org", "", "the organization, by id or name; needed where there are several")
	flags.Document(own)
	set.AddFlagSet(own)
}

// BindServer defines all flags but the organisation's.
func (f *Flags) BindServer(set *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&f.Host, "host", "", "the server's URL; by default that of the server that uses --dataDir")
	own.StringVar(&f.Token, "token", "", "a token of the server; better given in the environment, where other users do not see it; by default that in --dataDir")
	own.StringVar(&f.DataDir, "dataDir", "./tailrace-data", "the data directory of a server on this machine")
	f.TLS.Bind(own)
	own.BoolVar(&f.SkipVerify, "skipVerify", false, "take any certificate; whoever is in between can read all, the token too")
	flags.Document(own)
	set.AddFlagSet(own)
}

// names are the flags that the environment can give; others are said with each command.
var names = []string{"host", "token", "dataDir", "org", "tlsCA", "clientCertificate", "clientKey", "skipVerify"}

// FromEnv sets what was not given on the command line from the environment.
func FromEnv(set *pflag.FlagSet) error {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range names {
		if f := set.Lookup(name); f != nil {
			own.AddFlag(f)
		}
	}
	return exit.Usage(flags.FromEnv(own))
}

// A Session is a client, with what its errors need to be of help.
type Session struct {
	*apiclient.Client
	ctx   context.Context
	flags Flags
	// tokenFrom says where the token was found.
	tokenFrom string
	org       *apiclient.Org
}

// Open finds the server and the token. It asks nothing yet.
func (f Flags) Open(ctx context.Context) (*Session, error) {
	s := &Session{ctx: ctx, flags: f, tokenFrom: "--token or TAILRACE_TOKEN"}
	host := f.Host
	if host == "" {
		l, err := f.Running()
		if err != nil {
			return nil, err
		}
		host = l.URL
	}
	token := f.Token
	if token == "" {
		var err error
		s.tokenFrom = installation.TokenPath(f.DataDir)
		token, err = installation.ReadToken(s.tokenFrom)
		if errors.Is(err, os.ErrNotExist) {
			return nil, exit.Usage(errors.Errorf("no token: give one with --token or TAILRACE_TOKEN; there is none in %s", s.tokenFrom))
		}
		if err != nil {
			return nil, err
		}
	}
	config, err := f.tls(host)
	if err != nil {
		return nil, exit.Usage(err)
	}
	s.Client, err = apiclient.New(apiclient.Config{URL: host, Token: token, TLS: config})
	return s, exit.Usage(errors.WithMessagef(err, "--host %s", host))
}

func (f Flags) tls(host string) (*tls.Config, error) {
	config, err := f.TLS.Config(host)
	if err == nil {
		config.InsecureSkipVerify = f.SkipVerify
	}
	return config, err
}

// A NotRunningError says that no server uses the data directory.
type NotRunningError struct{ reason string }

// Error says what to do.
func (e *NotRunningError) Error() string {
	return e.reason + "; start one with 'tailrace start', or name one with --host, or its data directory with --dataDir"
}

// Running returns where the server listens that uses the data directory.
func (f Flags) Running() (installation.Listening, error) {
	l, err := installation.ReadListening(f.DataDir)
	if errors.Is(err, os.ErrNotExist) {
		return l, &NotRunningError{"no server runs with the data directory " + f.DataDir}
	}
	if err != nil {
		return l, err
	}
	// The token must not go to whoever has the port now.
	if alive, err := process.PidExists(int32(l.PID)); err == nil && !alive { //nolint:gosec // pids fit
		return l, &NotRunningError{"the server that used the data directory " + f.DataDir + " does not run any more"}
	}
	return l, nil
}

// TheOrg returns the organisation that the flags name.
func (s *Session) TheOrg() (apiclient.Org, error) {
	if s.org != nil {
		return *s.org, nil
	}
	o, err := s.Org(s.ctx, s.flags.Org)
	if err != nil {
		return o, err
	}
	s.org = &o
	return o, nil
}

// Explain adds to an error what the user can do.
func (s *Session) Explain(err error) error {
	var untrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	hint := ""
	switch status := apiclient.StatusOf(err); {
	case err == nil:
		return nil
	case status == 401:
		hint = "it was found in " + s.tokenFrom + "; give the right one with --token or TAILRACE_TOKEN"
	case status == 403:
		hint = "give a token that may, with --token or TAILRACE_TOKEN"
	case status == 404:
		hint = "is " + s.URL() + " a Tailrace, and of this version?"
		if known := new(apiclient.Error); errors.As(err, &known) && known.Code == "not found" && known.Message != "path not found" {
			return err
		}
	case errors.As(err, &untrusted):
		hint = "give the authority of its certificate with --tlsCA"
	case errors.As(err, &alert):
		hint = "it may want a certificate: --clientCertificate, --clientKey"
	case errors.As(err, new(*apiclient.ConnectionError)):
		hint = "is it running, and is --host right?"
	default:
		return err
	}
	return &hinted{err, hint}
}

// hinted is an error with advice behind it.
type hinted struct {
	error
	hint string
}

// Error puts the advice behind the error.
func (h *hinted) Error() string { return h.error.Error() + " (" + h.hint + ")" }

// Unwrap returns the error.
func (h *hinted) Unwrap() error { return h.error }
