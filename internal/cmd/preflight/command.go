// Package preflight is the command that looks, before anything runs, whether a target could be used.
package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/preflight"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
)

// Options are the flags.
type Options struct {
	TargetConn, TargetToken, TargetSchema, StagingSchema string
	TargetDBConns                                        int
	PooledTarget                                         bool
	Timeout                                              time.Duration
	JSON                                                 bool
}

const long = `Look whether a database, or another InfluxDB, can be a target, and say in plain language what is wrong and what to do:
version, encryption, poolers in between, encoding, clocks, durability, and rights, which are tried in
transactions that are rolled back. Nothing is left behind.

The exit status is 0 if the target can be used (warnings aside), 1 if it cannot, and 2 for a mistake in
the command.`

const examples = `  # Give the password by the environment, where no list of processes shows it
  TAILRACE_TARGET_CONN=postgres://app:secret@db/plant tailrace preflight

  # For a program
  tailrace preflight --targetConn sqlite:/var/lib/tailrace/target.db --json`

// Command returns the command.
func Command() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use: "preflight", Short: "Look whether a target can be used, and say what to do", Long: long, Example: examples,
		Args:    flags.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return exit.Usage(flags.FromEnv(cmd.Flags())) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	set := cmd.Flags()
	set.StringVar(&o.TargetConn, "targetConn", "", "the target: postgres://user:password@host/database, sqlite:PATH or http://host:8086?org=ORG&bucket=BUCKET")
	set.StringVar(&o.TargetToken, "targetToken", "", "the token for an InfluxDB; better given in the environment, where other users do not see it")
	set.StringVar(&o.TargetSchema, "targetSchema", "", "the schema for the tables of measurements; default is public")
	set.StringVar(&o.StagingSchema, "stagingSchema", "_tailrace", "where a SQL server keeps consistent points, leases and dead letters")
	set.IntVar(&o.TargetDBConns, "targetDBConns", 16, "the most connections to a SQL server")
	set.BoolVar(&o.PooledTarget, "pooledTarget", false, "the SQL server is behind a connection pooler in transaction mode, such as PgBouncer")
	set.DurationVar(&o.Timeout, "timeout", 30*time.Second, "the longest that all of it may take")
	set.BoolVar(&o.JSON, "json", false, "print the report as JSON")
	flags.Document(set)
	return cmd
}

// result is what --json prints.
type result struct {
	Target string           `json:"target"`
	OK     bool             `json:"ok"`
	Checks preflight.Report `json:"checks"`
}

func (o *Options) run(ctx context.Context, out io.Writer) error {
	if o.Timeout <= 0 {
		return exit.Usage(errors.Errorf("--timeout: %s is too short; give a duration such as 30s", o.Timeout))
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	target, report, err := o.examine(ctx)
	if err != nil {
		return exit.Usage(err)
	}
	r := result{Target: target, OK: report.OK(), Checks: report}
	if o.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.print(out)
	}
	if err == nil && !r.OK {
		err = errors.New("the target cannot be used as it is")
	}
	return err
}

// examine asks the target, and returns its address without a password. Its errors are mistakes in the flags.
func (o *Options) examine(ctx context.Context) (string, preflight.Report, error) {
	if o.TargetConn == "" {
		return "", nil, errors.New("--targetConn: name the target, such as postgres://user:password@host/database, sqlite:/path/file.db or http://host:8086?org=ORG&bucket=BUCKET")
	}
	if strings.HasPrefix(o.TargetConn, "http:") || strings.HasPrefix(o.TargetConn, "https:") {
		config, err := influx.ParseURL(o.TargetConn)
		if err != nil {
			return "", nil, errors.WithMessage(err, "--targetConn")
		}
		config.Token = o.TargetToken
		shown, _, err := remote.Parse(config.URL)
		if err != nil {
			return "", nil, errors.WithMessage(err, "--targetConn")
		}
		report, err := influx.Preflight(ctx, config)
		return shown.Text, report, errors.WithMessage(err, "--targetConn")
	}
	address, _, err := remote.Parse(o.TargetConn)
	if err != nil {
		return "", nil, errors.WithMessage(err, "--targetConn")
	}
	var report preflight.Report
	if address.Kind == remote.SQLite {
		report, err = sqlite.Preflight(ctx, sqlite.Config{Path: address.Path})
	} else {
		report, err = postgres.Preflight(ctx, postgres.Config{
			DSN: o.TargetConn, Schema: o.TargetSchema, StagingSchema: o.StagingSchema, Conns: o.TargetDBConns, Pooled: o.PooledTarget,
		})
	}
	return address.Text, report, errors.WithMessage(err, "--targetConn")
}

// print prints the report for people.
func (r result) print(out io.Writer) error {
	fmt.Fprintf(out, "%s\n\n", r.Target)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		status := string(c.Status)
		if c.Status == preflight.Failed {
			status = "FAILED"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", status, c.Name, c.Found)
		if c.Advice != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", c.Advice)
		}
	}
	return table.Flush()
}
