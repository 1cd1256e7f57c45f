package stream

import (
	"context"
	stderrors "errors"
	"fmt"
	"net/url"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const createLong = `Make a stream. Its remote is one that there is (--remote), or is made from an address (--remoteURL):

  http(s)://host:8086          another InfluxDB, of any version; needs --remoteBucket
  postgres://user@host/db      PostgreSQL or CockroachDB
  sqlite:file.db               a file in the server's data directory

The bucket is made too, if there is none of that name. All of that is made, or nothing. The remote need not be
reachable; --validate tries it first.

The remote's token or password is read from the standard input, a file, or the environment, and stored encrypted.`

const createExamples = `  # To an InfluxDB 2.x; the token comes from a file
  tailrace stream create --bucket plant --remoteURL https://cloud.example:8086 --remoteOrg acme \
    --remoteBucket metrics --remoteToken-stdin < token.txt

  # To an InfluxDB 1.x without passwords, only some measurements
  tailrace stream create up --bucket plant --remoteURL http://cloud.example:8086 --remoteBucket metrics \
    --includeMeasurements 'cpu,disk*' --excludeTags env=test

  # To a remote that there is
  tailrace stream create --bucket plant --remote cloud --remoteBucket metrics`

// creation are the flags of create.
type creation struct {
	settings
	bucket, remote                   string
	remoteURL, remoteName, remoteOrg string
	allowInsecureTLS                 bool
	token                            flags.Secret
	paused, validate                 bool
}

func createCommand(f *connect.Flags) *cobra.Command {
	x := &creation{}
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Make a stream, with its bucket and its remote if need be",
		Long: createLong, Example: createExamples,
		Args: connect.Args(0, 1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	set := cmd.Flags()
	set.StringVar(&x.bucket, "bucket", "", "the bucket whose writes are replicated; made if there is none")
	set.StringVar(&x.remote, "remote", "", "the remote, by id or name")
	set.StringVar(&x.remoteURL, "remoteURL", "", "the address of a remote that is made")
	set.StringVar(&x.remoteName, "remoteName", "", "the name of the remote that is made; by default its host")
	set.StringVar(&x.remoteOrg, "remoteOrg", "", "the organization at the remote that is made, by id or name")
	set.BoolVar(&x.allowInsecureTLS, "allowInsecureTLS", false, "have the remote that is made take any certificate")
	x.token.Bind(cmd, "remoteToken", "the token or password of the remote that is made")
	set.BoolVar(&x.paused, "paused", false, "do not send yet")
	set.BoolVar(&x.validate, "validate", false, "try the remote first, and make nothing if it does not work")
	x.bind(cmd)
	asJSON := show.Flag(cmd)
	completeFlags(f, cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		d, err := x.create(cmd, s, name)
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), d)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "stream %s: created; 'tailrace stream show %s' says how it does\n", show.OneLine(d.Fields.Name, 0), d.Fields.ID)
		return nil
	})
	return cmd
}

func (x *creation) check(cmd *cobra.Command) error {
	switch {
	case x.bucket == "":
		return exit.Usage(errors.New("--bucket: name the bucket whose writes are to be replicated"))
	case (x.remote == "") == (x.remoteURL == ""):
		return exit.Usage(errors.New("give either --remote, one that there is ('tailrace remote list'), or --remoteURL, the address of a new one"))
	}
	for _, flag := range []string{"remoteName", "remoteOrg", "allowInsecureTLS", "remoteToken-stdin", "remoteTokenFile"} {
		if x.remote != "" && cmd.Flags().Changed(flag) {
			return exit.Usage(errors.Errorf("--%s is for a remote that is made, with --remoteURL; 'tailrace remote update' changes one that there is", flag))
		}
	}
	return nil
}

// create makes what has to be made, and takes it back if something fails.
func (x *creation) create(cmd *cobra.Command, s *connect.Session, name string) (d apiclient.Document[apiclient.Stream], err error) {
	if err := x.check(cmd); err != nil {
		return d, err
	}
	body, err := x.body(cmd, nil)
	if err != nil {
		return d, err
	}
	org, err := s.TheOrg()
	if err != nil {
		return d, err
	}
	var made []undo
	defer func() {
		if err != nil {
			err = takeBack(made, err)
		}
	}()
	bucket, err := connect.Find(s, apiclient.Buckets, x.bucket)
	if errors.As(err, new(*apiclient.NotFoundError)) {
		bucket, err = apiclient.Buckets.Create(cmd.Context(), s.Client, apiclient.Body{"orgID": org.ID, "name": x.bucket})
		if err == nil {
			made = append(made, undo{"bucket " + x.bucket, func(ctx context.Context) error {
				return apiclient.Buckets.Delete(ctx, s.Client, bucket.Fields.ID)
			}})
		}
	}
	if err != nil {
		return d, err
	}
	remote, err := x.theRemote(cmd, s, org.ID, &made)
	if err != nil {
		return d, err
	}
	if name == "" {
		name = bucket.Fields.Name + "-to-" + remote.Fields.Name
	}
	body["orgID"], body["name"], body["localBucketID"], body["remoteID"] = org.ID, name, bucket.Fields.ID, remote.Fields.ID
	if x.paused {
		body["paused"] = true
	}
	if x.validate {
		if err := s.ValidateNew(cmd.Context(), body); err != nil {
			return d, err
		}
	}
	if d, err = apiclient.Streams.Create(cmd.Context(), s.Client, body); err != nil {
		return d, err
	}
	for _, m := range made {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: created\n", show.OneLine(m.what, 0))
	}
	return d, nil
}

// theRemote returns the remote that is named, or makes one.
func (x *creation) theRemote(cmd *cobra.Command, s *connect.Session, orgID string, made *[]undo) (r apiclient.Document[apiclient.Remote], err error) {
	if x.remote != "" {
		return connect.Find(s, apiclient.Remotes, x.remote)
	}
	secret, given, err := x.token.Read(cmd)
	if err != nil {
		return r, err
	}
	name := x.remoteName
	if name == "" {
		name = hostOf(x.remoteURL)
	}
	body := apiclient.Body{"orgID": orgID, "name": name, "remoteURL": x.remoteURL, "allowInsecureTLS": x.allowInsecureTLS}
	if given {
		body["remoteAPIToken"] = secret
	}
	if x.remoteOrg != "" {
		body["remoteOrgID"] = x.remoteOrg
	}
	r, err = apiclient.Remotes.Create(cmd.Context(), s.Client, body)
	if err == nil {
		*made = append(*made, undo{"remote " + name, func(ctx context.Context) error {
			return apiclient.Remotes.Delete(ctx, s.Client, r.Fields.ID)
		}})
	} else if known := new(apiclient.Error); errors.As(err, &known) && known.Code == "conflict" {
		err = errors.WithMessagef(err, "use it with --remote %q, or give another --remoteName", name)
	}
	return r, err
}

// hostOf returns what a remote is called that nobody has named.
func hostOf(address string) string {
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Hostname() != "":
		return u.Hostname()
	case err == nil && u.Opaque != "":
		return u.Opaque
	}
	return "remote"
}

// undo is how something is taken back that was made.
type undo struct {
	what string
	do   func(ctx context.Context) error
}

// takeBack takes back what was made, the newest first, and says what stays.
func takeBack(made []undo, why error) error {
	for i := len(made) - 1; i >= 0; i-- {
		if err := made[i].do(context.Background()); err != nil {
			why = stderrors.Join(why, errors.WithMessagef(err, "the %s was made and stays", made[i].what))
		}
	}
	return why
}
