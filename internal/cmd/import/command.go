// Package importcmd is the command that sends files of line protocol to a server.
package importcmd

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// Options are the flags.
type Options struct {
	Host, Bucket, Precision string
	Token                   string
	TLS                     flags.ClientTLS
	SkipErrors              bool
	RejectFile              string
	BatchLines              int
}

const long = `Send files of InfluxDB line protocol to a bucket. "-" is the standard input; what is compressed with
gzip is recognised by its first bytes.

Lines are sent in the order of the files. A server that is busy (429, 503) or away is waited for. A line
that does not parse stops the import at that line, and says where; with --skipErrors such lines go to the
reject file and the import goes on. The reject file must be new or empty: what an earlier import rejected
is never overwritten, and neither is a file that is imported. That is checked before anything is sent.

A file whose lines all have timestamps can be imported again: its points are written over with the values
in the file. A line without a timestamp gets the time at which it is sent, so it becomes another point each
time.`

const examples = `  # A file with timestamps in seconds
  tailrace import --precision s weather.lp

  # Everything that an InfluxDB 1.x exported, bad lines aside
  influx_inspect export -datadir … -lponly -out - | tailrace import --skipErrors --rejectFile bad.lp -

  # Into a server elsewhere
  tailrace import --host https://edge-7:8086 --token "$TOKEN" --bucket plant *.lp.gz

  # Whose certificate is by an authority of your own
  tailrace import --host https://edge-7:8086 --tlsCA ca.pem --token "$TOKEN" weather.lp`

// Command returns the command.
func Command() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use: "import FILE...", Short: "Send line-protocol files to a bucket", Long: long, Example: examples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage(errors.New("import: name the files, or - for the standard input"))
			}
			return nil
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error { return exit.Usage(flags.FromEnv(cmd.Flags())) },
		RunE: func(cmd *cobra.Command, files []string) error {
			im, err := newImporter(o, cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin())
			if err != nil {
				return err
			}
			return im.run(cmd.Context(), files)
		},
	}
	set := cmd.Flags()
	set.StringVar(&o.Host, "host", "http://127.0.0.1:8086", "the server's URL")
	set.StringVar(&o.Bucket, "bucket", "default", "the bucket to write to")
	set.StringVar(&o.Token, "token", "", "a token that may write to the bucket; by default that in ./tailrace-data/token")
	o.TLS.Bind(set)
	set.StringVar(&o.Precision, "precision", "ns", "the unit of the timestamps: ns, us, ms, s, m or h")
	set.BoolVar(&o.SkipErrors, "skipErrors", false, "go on after lines that do not parse, and write them to the reject file")
	set.StringVar(&o.RejectFile, "rejectFile", "rejected.lp", "where --skipErrors writes lines that do not parse; a file that is not empty is refused")
	set.IntVar(&o.BatchLines, "batchLines", 5000, "how many lines are sent at once at most; fewer are sent where they come to 1 MiB")
	flags.Document(set)
	return cmd
}

// check completes the options and reports the first that cannot work.
func (o *Options) check() (lineprotocol.Precision, error) {
	precision, err := lineprotocol.ParsePrecisionV1(o.Precision)
	if err != nil {
		return 0, exit.Usage(errors.WithMessage(err, "--precision"))
	}
	if o.BatchLines < 1 {
		return 0, exit.Usage(errors.Errorf("--batchLines: %d is too small; give at least 1", o.BatchLines))
	}
	if o.Token == "" {
		path := filepath.Join("tailrace-data", "token")
		o.Token, err = installation.ReadToken(path)
		if errors.Is(err, os.ErrNotExist) {
			return 0, exit.Usage(errors.Errorf("no --token was given, and there is none in %s", path))
		}
	}
	return precision, err
}
