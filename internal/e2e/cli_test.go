package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/cmd/backup"
	"github.com/tailrace-cdc/tailrace/internal/cmd/bucket"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/remote"
	"github.com/tailrace-cdc/tailrace/internal/cmd/restore"
	"github.com/tailrace-cdc/tailrace/internal/cmd/stream"
	"github.com/tailrace-cdc/tailrace/internal/cmd/token"
)

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

// tailrace runs a command of the binary to its end.
func tailrace(t *testing.T, dir, stdin string, env []string, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), env...), strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exited := new(exec.ExitError); err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// cli runs a command beside a server's data directory. A first argument such as X=y goes to its environment.
func (p *process) cli(args ...string) result {
	p.t.Helper()
	return p.cliWith("", args...)
}

func (p *process) cliWith(stdin string, args ...string) result {
	p.t.Helper()
	var env []string
	for len(args) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(args[0]) {
		env, args = append(env, args[0]), args[1:]
	}
	return tailrace(p.t, p.t.TempDir(), stdin, append([]string{"TAILRACE_DATA_DIR=" + p.dir}, env...), args...)
}

// ok is cli for a command that must succeed. It returns its output.
func (p *process) ok(args ...string) string {
	p.t.Helper()
	r := p.cli(args...)
	if r.code != 0 {
		p.t.Fatalf("tailrace %s: exit status %d\n%s%s\n%s", strings.Join(args, " "), r.code, r.out, r.err, p.output())
	}
	return r.out
}

// asked is ok for a command with --json.
func (p *process) asked(result any, args ...string) {
	p.t.Helper()
	out := p.ok(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), result); err != nil {
		p.t.Fatalf("tailrace %s --json: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// commands are those that are tested here.
func commands() []*cobra.Command {
	root := &cobra.Command{Use: "tailrace"}
	root.AddCommand(stream.Command(), remote.Command(), bucket.Command(), token.Command(), backup.Command(""), restore.Command())
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			all = append(all, sub)
			walk(sub)
		}
	}
	walk(root)
	return all
}

// TestEveryCommandHasAnExample in its --help, and says what it does.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		r := tailrace(t, t.TempDir(), "", nil, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if r.code != 0 || !strings.Contains(r.out, "Examples:\n  ") || !strings.Contains(r.out, "tailrace ") || c.Short == "" {
			t.Errorf("%s --help: exit status %d\n%s%s", c.CommandPath(), r.code, r.out, r.err)
		}
		doc, err := os.ReadFile("../../docs/cli.md")
		if err != nil {
			t.Fatal(err)
		}
		if !c.HasSubCommands() && !strings.Contains(string(doc), "`"+c.CommandPath()) {
			t.Errorf("docs/cli.md does not have %q", c.CommandPath())
		}
	}
}

// TestConnectionFlagsChangeBehaviour shows that each flag about the server does something, in both forms.
func TestConnectionFlagsChangeBehaviour(t *testing.T) {
	t.Parallel()
	everyForm(t, connectionFlags)
}

var connectionFlags = map[string]func(t *testing.T, s setting){
	"dataDir": func(t *testing.T, s setting) {
		p := launch(t, t.TempDir())
		s.lists(t, p.dir, true)
		s.lists(t, t.TempDir(), false)
	},
	"host": func(t *testing.T, s setting) {
		p := launch(t, t.TempDir())
		s.lists(t, p.url, true, "--token", p.token())
		s.lists(t, "http://127.0.0.1:1", false, "--token", p.token())
	},
	"token": func(t *testing.T, s setting) {
		p := launch(t, t.TempDir())
		s.lists(t, p.token(), true, "--host", p.url)
		s.lists(t, "x"+p.token(), false, "--host", p.url)
	},
	"org": func(t *testing.T, s setting) {
		p := launch(t, t.TempDir())
		p.must("POST", "/api/v2/orgs", `{"name":"second"}`, nil)
		if r := p.cli("stream", "list"); r.code != 1 || !strings.Contains(r.err, "--org") {
			t.Errorf("with two organizations: %+v", r)
		}
		s.lists(t, "default", true, "--dataDir", p.dir)
		s.lists(t, "nobody", false, "--dataDir", p.dir)
	},
	"tlsCA": func(t *testing.T, s setting) {
		safe := newSafe(t)
		p := launch(t, t.TempDir(), "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key)
		if r := p.cli("stream", "list"); r.code != 1 || !strings.Contains(r.err, "--tlsCA") {
			t.Errorf("without it: %+v", r)
		}
		s.lists(t, safe.ca.File(t, t.TempDir()), true, "--dataDir", p.dir)
	},
	"skipVerify": func(t *testing.T, s setting) {
		safe := newSafe(t)
		p := launch(t, t.TempDir(), "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key)
		s.lists(t, "true", true, "--dataDir", p.dir)
		s.lists(t, "false", false, "--dataDir", p.dir)
	},
	"clientCertificate": func(t *testing.T, s setting) { s.showsCertificate(t) },
	"clientKey":         func(t *testing.T, s setting) { s.showsCertificate(t) },
}

// lists runs a command with the flag, and expects that it reaches the server, or does not.
func (s setting) lists(t *testing.T, value string, reaches bool, with ...string) {
	t.Helper()
	args, env := s.give(value)
	r := tailrace(t, t.TempDir(), "", []string{env}, append(append([]string{"stream", "list"}, with...), args...)...)
	if reached := r.code == 0 && strings.Contains(r.out, "default"); reached != reaches {
		t.Errorf("--%s %s: %+v", s.flag, value, r)
	}
}

// showsCertificate gives both halves of a client's certificate, one of them as the setting says.
func (s setting) showsCertificate(t *testing.T) {
	safe := newSafe(t)
	_, cert, key := safe.issue(t, t.TempDir())
	ca := safe.ca.File(t, t.TempDir())
	p := launch(t, t.TempDir(), "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key, "--tlsClientCA", ca, "--tlsClientAuth", "require")
	if r := p.cli("stream", "list", "--tlsCA", ca); r.code != 1 {
		t.Errorf("without a certificate: %+v", r)
	}
	other, value := []string{"--clientKey", key}, cert
	if s.flag == "clientKey" {
		other, value = []string{"--clientCertificate", cert}, key
	}
	s.lists(t, value, true, append(other, "--tlsCA", ca, "--dataDir", p.dir)...)
}

// A step is a command, and how it ends.
type step struct {
	args  string // %s is the id of the stream "up"
	stdin string
	code  int
	// says are regular expressions of what the output says, and errs of the error output.
	says, errs string
	not        string // what neither says
	then       func(t *testing.T, p *process, r result)
}

const remotePassword = "the-password-of-the-remote"

// TestCommandFlagsChangeBehaviour goes through a life with the commands, and shows of every flag of every one
// that it does something. A flag that no step uses fails the test.
func TestCommandFlagsChangeBehaviour(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "--retryDelay", "20ms")
	dir := t.TempDir()
	secretFile := filepath.Join(dir, "secret")
	if err := os.WriteFile(secretFile, []byte(remotePassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	field := func(name, want string, args ...string) func(*testing.T, *process, result) {
		return func(t *testing.T, p *process, _ result) {
			t.Helper()
			var doc map[string]any
			p.asked(&doc, args...)
			text, _ := json.Marshal(doc[name])
			if string(text) != want {
				t.Errorf("%s is %s, want %s", name, text, want)
			}
		}
	}
	up := func(name, want string) func(*testing.T, *process, result) {
		return field(name, want, "stream", "show", "up")
	}
	steps := []step{
		// Buckets.
		{args: "bucket create plant --description halls", says: "bucket plant: created"},
		{args: "bucket create plant", code: 1, errs: "already exists"},
		{args: "bucket create second --json", says: `"name": "second"`},
		{args: "bucket list", says: `plant +- +halls`},
		{args: "bucket list --json", says: `"name": "plant"`},
		{args: "bucket show plant", says: `description +halls`},
		{args: "bucket show plant --json", says: `"description": "halls"`},
		{args: "bucket update second --name third --description none", says: "bucket third: updated"},
		{args: "bucket update third --name second --json", says: `"name": "second"[^}]*"description": "none"`},
		{args: "bucket update second", code: 2, errs: "nothing to change"},
		{args: "bucket delete second", code: 2, errs: "--yes"},
		{args: "bucket delete second --yes", says: "bucket second: deleted"},
		{args: "bucket show second", code: 1, errs: `there is no bucket "second"; 'tailrace bucket list'`},

		// Remotes.
		{args: "remote create cloud --url http://127.0.0.1:1 --remoteOrg acme --description far --allowInsecureTLS --remoteToken-stdin", stdin: remotePassword + "\n", says: "remote cloud: created", not: remotePassword},
		{args: "remote create spare --url http://127.0.0.1:1 --remoteTokenFile " + secretFile + " --json", says: `"name": "spare"`, not: remotePassword},
		{args: "remote create both --url http://127.0.0.1:1 --remoteToken-stdin --remoteTokenFile " + secretFile, code: 2, errs: "do not go together"},
		{args: "remote create none --url http://127.0.0.1:1 --remoteToken-stdin", code: 1, errs: "it is empty"},
		{args: "remote create none", code: 2, errs: "--url"},
		{args: "remote list", says: `cloud +http://127.0.0.1:1 +ok`, not: remotePassword},
		{args: "remote list --json", says: `"remoteURL": "http://127.0.0.1:1"`, not: remotePassword},
		{args: "remote show cloud", says: `(?s)description +far.*organization +acme\ntakes any certificate +yes`, not: remotePassword},
		{args: "remote show cloud --json", says: `"remoteOrgID": "acme"`, not: remotePassword},
		{args: "remote update spare --url http://127.0.0.1:2", code: 1, errs: "give the token or password again"},
		{args: "remote update spare --name reserve --url http://127.0.0.1:2 --remoteOrg x --description y --allowInsecureTLS=true --remoteToken-stdin", stdin: remotePassword, not: remotePassword, says: "remote reserve: updated"},
		{args: "remote update reserve --remoteToken-stdin --json", stdin: remotePassword, says: `(?s)"description": "y".*"remoteURL": "http://127.0.0.1:2".*"remoteOrgID": "x".*"allowInsecureTLS": true`, not: remotePassword},
		{args: "remote update reserve --remoteTokenFile " + secretFile, says: "updated", not: remotePassword},
		{args: "remote delete reserve", code: 2, errs: "--yes"},
		{args: "remote delete reserve --yes", says: "remote reserve: deleted"},

		// Streams.
		{
			args: "stream create up --bucket plant --remote cloud --remoteBucket metrics --description uphill --paused --maxQueueSize 2MiB --bytesInFlight 1MiB --maxAge 72h " +
				"--backfillWindow 5m --queueFullPolicy dropOldest --onReject stop --fanShards 3 --includeMeasurements cpu,disk* --excludeMeasurements diskold --includeTags env=prod* --excludeTags env=prodtest",
			says: "stream up: created",
			then: func(t *testing.T, p *process, _ result) {
				for name, want := range map[string]string{
					"description": `"uphill"`, "paused": "true", "maxQueueSizeBytes": "2097152", "bytesInFlight": "1048576", "maxAgeSeconds": "259200",
					"backfillWindow": `"5m0s"`, "queueFullPolicy": `"dropOldest"`, "onReject": `"stop"`, "fanShards": "3", "remoteBucketName": `"metrics"`,
					"filter": `{"measurements":{"exclude":["diskold"],"include":["cpu","disk*"]},"tags":{"exclude":["env=prodtest"],"include":["env=prod*"]}}`,
				} {
					up(name, want)(t, p, result{})
				}
			},
		},
		{args: "stream create --bucket plant --remote cloud --remoteBucketID 0000000000000042 --json", says: `(?s)"name": "plant-to-cloud".*"remoteBucketID": "0000000000000042"`},
		{args: "stream delete plant-to-cloud --yes", says: "deleted"},
		{args: "stream create x --bucket plant", code: 2, errs: "either --remote"},
		{args: "stream create x --remote cloud", code: 2, errs: "--bucket"},
		{args: "stream create x --bucket plant --remote cloud --remoteOrg o", code: 2, errs: "--remoteOrg is for a remote that is made"},
		{args: "stream create x --bucket plant --remote cloud", code: 1, errs: "remoteBucketName"},
		// All or nothing.
		{args: "stream create x --bucket fresh --remoteURL http://127.0.0.1:1 --remoteName newone --remoteBucket m --validate", code: 1, errs: "fail validation"},
		{args: "stream create x --bucket fresh --remoteURL http://127.0.0.1:1", code: 1, errs: "remoteBucketName"},
		{args: "bucket show fresh", code: 1, errs: "there is no bucket"},
		{args: "remote show newone", code: 1, errs: "there is no remote"},
		{args: "stream create x --bucket fresh --remoteURL http://127.0.0.1:1 --remoteName cloud --remoteBucket m", code: 1, errs: `--remote "cloud"`},
		{args: "stream create x --bucket fresh --remoteURL http://127.0.0.1:1 --remoteName newone --remoteOrg o --allowInsecureTLS --remoteBucket m --remoteToken-stdin", stdin: remotePassword, says: "stream x: created", errs: "(?s)bucket fresh: created.*remote newone: created", not: remotePassword},
		{args: "remote show newone", says: `(?s)organization +o\n.*certificate +yes`},
		{args: "stream create y --bucket fresh --remoteURL http://127.0.0.1:2 --remoteBucket m --remoteTokenFile " + secretFile, says: "stream y: created", errs: "remote 127.0.0.1: created"},
		{args: "stream list", says: `(?m)^up +plant +cloud +paused`},
		{args: "stream list --bucket fresh", says: `(?m)^x .*`, not: "\nup "},
		{args: "stream list --remote cloud", says: `(?m)^up .*`, not: "\nx "},
		{args: "stream list --json", says: `"name": "up"`},
		{args: "stream show %s", says: `(?s)name +up.*state +paused.*include measurements +cpu, disk\*`},
		{args: "stream show up --json", says: `"state": "paused"`},
		{args: "stream update up --name uphill --remote newone --json", says: `"name": "uphill"`},
		{args: "stream update uphill --name up --remote cloud --remoteBucket other --description d --maxQueueSize 3MiB --bytesInFlight 2MiB --maxAge 0s --backfillWindow 1m --queueFullPolicy dropNewest --onReject discard --fanShards 2", then: func(t *testing.T, p *process, _ result) {
			for name, want := range map[string]string{
				"description": `"d"`, "maxQueueSizeBytes": "3145728", "bytesInFlight": "2097152", "maxAgeSeconds": "0", "remoteBucketName": `"other"`,
				"backfillWindow": `"1m0s"`, "queueFullPolicy": `"dropNewest"`, "onReject": `"discard"`, "fanShards": "2",
			} {
				up(name, want)(t, p, result{})
			}
		}},
		{args: "stream update up --remoteBucketID 0000000000000043", then: up("remoteBucketID", `"0000000000000043"`)},
		{args: "stream update up --excludeMeasurements a,b", then: up("filter", `{"measurements":{"exclude":["a","b"],"include":["cpu","disk*"]},"tags":{"exclude":["env=prodtest"],"include":["env=prod*"]}}`)},
		{args: "stream update up --includeTags= --excludeTags= --includeMeasurements=", then: up("filter", `{"measurements":{"exclude":["a","b"]}}`)},
		{args: "stream update up --reset filter,onReject", then: up("filter", "null")},
		{args: "stream show up", says: `on reject +deadLetter`},
		{args: "stream update up --reset nonsense", code: 2, errs: "cannot be reset"},
		{args: "stream update up --reset onReject --onReject stop", code: 2, errs: "do not go together"},
		{args: "stream update up --maxAge 1500ms", code: 2, errs: "whole seconds"},
		{args: "stream update up", code: 2, errs: "nothing to change"},
		{args: "stream update up --fanShards 5 --validate", code: 1, errs: "fail validation", then: up("fanShards", "2")},
		{args: "stream pause x --json", says: `"paused": true`},
		{args: "stream resume x --json", says: `"paused": false`},
		{args: "stream flush x --json", says: `"name": "x"`},
		{args: "stream pause x y", says: "stream x: paused\nstream y: paused"},
		{args: "stream validate up", code: 1, errs: "stream up: .*fail validation"},
		{args: "stream pause up nobody", code: 1, errs: `there is no stream "nobody"`},
		{args: "stream purge up", code: 2, errs: "--yes"},
		{args: "stream purge up --yes", then: func(t *testing.T, p *process, r result) {
			if !strings.Contains(r.out, "0 points") {
				t.Errorf("an empty queue is purged: %s", r.out)
			}
			if status, text, err := p.post(p.token(), v2("plant"), "cpu v=1 1\ncpu v=2 2"); err != nil || status != 204 {
				t.Errorf("%d %s %v", status, text, err)
			}
		}},
		{args: "stream purge up --yes --json", says: `"points": 2`},
		{args: "stream delete x", code: 2, errs: "--yes"},
		{args: "stream delete x y --yes", says: "stream x: deleted\nstream y: deleted"},

		// Tokens. They are in files, or go where they are sent.
		{args: "token create sensor --scope write --bucket plant --to " + filepath.Join(dir, "t1"), says: "token sensor: created", then: func(t *testing.T, p *process, r result) {
			text, err := os.ReadFile(filepath.Join(dir, "t1"))
			info, statErr := os.Stat(filepath.Join(dir, "t1"))
			if err != nil || statErr != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%v %v", err, info.Mode())
			}
			secret := strings.TrimSpace(string(text))
			if strings.Contains(r.out+r.err, secret) {
				t.Error("the token is shown")
			}
			if status, text, err := p.post(secret, v2("plant"), "cpu v=3 3"); err != nil || status != 204 {
				t.Errorf("%d %s %v", status, text, err)
			}
			if status, _, _ := p.post(secret, v2("default"), "cpu v=3 3"); status != 403 {
				t.Errorf("it writes to another bucket: %d", status)
			}
		}},
		{args: "token create sensor --scope write --bucket plant --to " + filepath.Join(dir, "t1"), code: 1, errs: "name a new file"},
		{args: "token create deploy --scope manage --to -", says: `^[\w-]{40,}\n$`},
		{args: "token create eyes --scope read --json --to " + filepath.Join(dir, "t2"), says: `"description": "eyes"`, not: `"token"`},
		{args: "token create x --scope all --to -", code: 2, errs: "--scope"},
		{args: "token create x --scope write --to -", code: 2, errs: "--bucket"},
		{args: "token create x --scope read", code: 2, errs: "--to"},
		{args: "token list", says: `(?s)sensor +active +write bucket plant.*deploy +active +manage.*eyes +active +read `},
		{args: "token list --json", says: `"description": "sensor"`, not: `"token"`},
		{args: "token show sensor", says: `may +write bucket plant`},
		{args: "token show sensor --json", says: `"description": "sensor"`},
		{args: "token update sensor probe", says: "token probe: updated"},
		{args: "token update probe sensor --json", says: `"description": "sensor"`},
		{args: "token disable sensor", says: "inactive", then: func(t *testing.T, p *process, _ result) {
			text, _ := os.ReadFile(filepath.Join(dir, "t1"))
			if status, _, _ := p.post(strings.TrimSpace(string(text)), v2("plant"), "cpu v=3 3"); status != 401 {
				t.Errorf("a token that is disabled is answered %d", status)
			}
		}},
		{args: "token enable sensor", says: "active"},
		{args: "token delete sensor", code: 2, errs: "--yes"},
		{args: "token delete sensor --yes", says: "deleted"},

		// Dead letters, of a stream to the embedded target.
		{args: "stream deadletters list default", says: "There are no dead letters", then: func(_ *testing.T, p *process, _ result) {
			p.write("m v=1 1")
			awaitCount(p.t, openTarget(p.t, p.dir), "SELECT count(*) FROM m", 1)
			p.write("m v=\"a\" 2\nm v=\"b\" 3\nm v=\"c\" 4")
			eventually(p.t, 30*time.Second, "there are no letters", func() bool {
				var doc struct{ DeadLetters *int64 }
				p.asked(&doc, "stream", "show", "default")
				return doc.DeadLetters != nil && *doc.DeadLetters == 3
			})
		}},
		{args: "stream deadletters list default", says: `(?s)ID +TIME +MEASUREMENT +REASON +POINT.*m v="a" 2.*m v="b" 3.*m v="c" 4`},
		{args: "stream deadletters list default --limit 1", says: `m v="a" 2`, not: `m v="b"`, errs: "There are more: --after 1,"},
		{args: "stream deadletters list default --after 1 --json", says: `(?s)b\\" 3.*c\\" 4`, not: `a\" 2`},
		{args: "stream deadletters list default --limit -1", code: 2, errs: "--limit"},
		{args: "stream deadletters show default 2", says: `point +m v="b" 3`},
		{args: "stream deadletters show default 2 --json", says: `"id": 2`},
		{args: "stream deadletters show default 99", code: 1, errs: "has no dead letter 99"},
		{args: "stream deadletters show default x", code: 2, errs: "is no id"},
		{args: "stream deadletters drop default 1", code: 2, errs: "--yes"},
		{args: "stream deadletters drop default 1 --yes", says: "1 dead letters dropped"},
		{args: "stream deadletters drop default 1 --yes", code: 1, says: "0 dead letters dropped", errs: "1 of the 1 ids"},
		{args: "stream deadletters replay default", code: 2, errs: "--all"},
		{args: "stream deadletters replay default 2", code: 1, errs: "0 were replayed, 1 dead letters stay; .*a string does not fit"},
		{args: "stream deadletters replay default --all", code: 1, errs: "0 were replayed, 2 dead letters stay; "},
		{args: "stream deadletters drop default --all --yes --json", says: `"count": 2`},

		{args: "stream deadletters replay default --all --json", says: `"count": 0`},

		// Backups.
		{args: "backup", code: 2, errs: "--to"},
		{args: "backup --to " + filepath.Join(dir, "plain"), says: "without queues, without the key"},
		{args: "backup --to " + filepath.Join(dir, "plain"), code: 1, errs: "exists already"},
		{args: "backup --withQueues --withKey --json --to " + filepath.Join(dir, "full"), says: `(?s)"withKey": true.*"withQueues": true.*"name": "secret.key"`},
		{args: "restore", code: 2, errs: "--from"},
		{args: "restore --check --from " + filepath.Join(dir, "full"), says: `(?s)with key +yes.*up +\w+ +yes`},
		{args: "restore --from " + filepath.Join(dir, "full") + " --json --sameInstallation --queueDir " + filepath.Join(dir, "queues") + " --dataDir " + filepath.Join(dir, "restored"), says: `"restoredAs"`, then: func(t *testing.T, p *process, r result) {
			var doc struct{ Installation, RestoredAs string }
			if err := json.Unmarshal([]byte(r.out), &doc); err != nil || doc.Installation != doc.RestoredAs {
				t.Errorf("%v, restored as %+v", err, doc)
			}
			if entries, err := os.ReadDir(filepath.Join(dir, "queues")); err != nil || len(entries) != 2 {
				t.Errorf("the queues are %v, %v", entries, err)
			}
		}},
		{args: "restore --from " + filepath.Join(dir, "plain") + " --dataDir " + filepath.Join(dir, "restored"), code: 1, errs: "is not empty"},
	}
	used := map[string]bool{"tailrace backup --queueDir": true} // TestBackupOfQueuesElsewhere
	for _, s := range steps {
		args := s.args
		if strings.Contains(args, "%s") {
			var doc created
			p.asked(&doc, "stream", "show", "up")
			args = fmt.Sprintf(args, doc.ID)
		}
		r := p.cliWith(s.stdin, strings.Fields(args)...)
		switch {
		case r.code != s.code,
			!regexp.MustCompile(s.says).MatchString(r.out), !regexp.MustCompile(s.errs).MatchString(r.err),
			s.not != "" && strings.Contains(r.out+r.err, s.not), s.code == 0 && s.errs == "" && r.err != "":
			t.Fatalf("tailrace %s: exit status %d, want %d\noutput: %s\nerrors: %s", args, r.code, s.code, r.out, r.err)
		case s.then != nil:
			s.then(t, p, r)
		}
		path := ""
		for _, word := range strings.Fields(args) {
			if !strings.HasPrefix(word, "--") {
				path += " " + word
				continue
			}
			for _, c := range commands() {
				if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(path+" ", strings.TrimPrefix(c.CommandPath(), "tailrace")+" ") {
					used[c.CommandPath()+" "+flag] = true
				}
			}
		}
	}
	for _, c := range commands() {
		if c.HasSubCommands() {
			continue
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !used[c.CommandPath()+" --"+f.Name] && connectionFlags[f.Name] == nil && f.Name != "help" {
				t.Errorf("%s --%s has no test", c.CommandPath(), f.Name)
			}
		})
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if connectionFlags[f.Name] == nil {
				t.Errorf("%s --%s has no test", c.CommandPath(), f.Name)
			}
			if !strings.Contains(f.Usage, "["+flags.EnvName(f.Name)+"]") {
				t.Errorf("%s --help does not say that --%s is %s too", c.CommandPath(), f.Name, flags.EnvName(f.Name))
			}
		})
	}
}

// TestRestoreFlagsByEnvironment: those that are about a machine, and not about one backup.
func TestRestoreFlagsByEnvironment(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "b")
	p.ok("backup", "--to", file, "--withQueues")
	dir, queues := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "q")
	if r := tailrace(t, t.TempDir(), "", []string{"TAILRACE_DATA_DIR=" + dir, "TAILRACE_QUEUE_DIR=" + queues}, "restore", "--from", file); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, path := range []string{filepath.Join(dir, "installation.json"), queues} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestSecretFromTheEnvironment: the remote's token, which is never shown.
func TestSecretFromTheEnvironment(t *testing.T) {
	t.Parallel()
	far, near := launch(t, t.TempDir()), launch(t, t.TempDir())
	secret := strings.TrimSpace(far.ok("token", "create", "near", "--scope", "write", "--bucket", "default", "--to", "-"))
	near.ok("TAILRACE_REMOTE_TOKEN="+secret, "stream", "create", "far", "--bucket", "default", "--remoteURL", far.url, "--remoteBucket", "default", "--validate")
	near.write("m v=1 1")
	awaitCount(t, openTarget(t, far.dir), "SELECT count(*) FROM m", 1)
	if r := near.cli("TAILRACE_REMOTE_TOKEN=wrong", "stream", "create", "no", "--bucket", "default", "--remoteURL", far.url, "--remoteName", "no", "--remoteBucket", "default", "--validate"); r.code != 1 {
		t.Errorf("a wrong token is validated: %+v", r)
	}
	for _, args := range [][]string{{"remote", "list", "--json"}, {"remote", "show", "127.0.0.1"}, {"stream", "show", "far", "--json"}} {
		if out := near.ok(args...); strings.Contains(out, secret) {
			t.Errorf("%v shows the secret:\n%s", args, out)
		}
	}
	if strings.Contains(near.output(), secret) {
		t.Error("the log has the secret")
	}
}

// TestShellsCompleteNames asks as a shell does.
func TestShellsCompleteNames(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	p.ok("bucket", "create", "plant")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"stream", "pause", ""}, "default\n:4"},
		{[]string{"stream", "show", "default", ""}, ":4"}, // it takes one
		{[]string{"bucket", "show", ""}, "default\nplant\n:4"},
		{[]string{"stream", "create", "--bucket", ""}, "default\nplant\n:4"},
		{[]string{"stream", "create", "--onReject", ""}, "deadLetter\ndiscard\nstop\n:4"},
		{[]string{"stream", "update", "default", "--reset", ""}, "backfillWindow\n"},
		{[]string{"token", "create", "x", "--scope", ""}, "write\nread\nmanage\n:4"},
		{[]string{"remote", "delete", "--host", "http://127.0.0.1:1", ""}, ":4"}, // nobody to ask
	} {
		if out := p.ok(append([]string{"__complete"}, c.args...)...); !strings.HasPrefix(out, c.want) {
			t.Errorf("%q completes to %q, want %q", c.args, out, c.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := p.ok("completion", shell); !strings.Contains(out, "tailrace") {
			t.Errorf("completion %s: %s", shell, out)
		}
	}
}

// TestConfirmation asks at a terminal: only yes is yes.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("script(1) makes the terminal, with the options that it has on Linux")
	}
	p := launch(t, t.TempDir())
	p.ok("bucket", "create", "plant")
	there := func() bool { return p.cli("bucket", "show", "plant").code == 0 }
	for _, answer := range []string{"no\n", "\n", "y\n", "yes\n"} {
		if !there() {
			t.Fatalf("it was deleted before the answer %q", answer)
		}
		cmd := exec.Command("script", "-qec", binary+" bucket delete plant --dataDir "+p.dir, "/dev/null")
		cmd.Stdin = strings.NewReader(answer)
		out, _ := cmd.CombinedOutput() // its status is that of the command
		if !strings.Contains(string(out), "Type yes to go on") {
			t.Errorf("it does not ask: %s", out)
		}
		if code := cmd.ProcessState.ExitCode(); (code == 0) != (answer == "yes\n") {
			t.Errorf("the answer %q ends with status %d: %s", answer, code, out)
		}
	}
	if there() {
		t.Error("it was confirmed, and is there")
	}
}

// TestListeningIsSaidWhileItIs: the file is there while the server runs, and what a killed one left misleads
// nobody.
func TestListeningIsSaidWhileItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "listening.json")
	p := launch(t, dir)
	var said struct {
		URL, Address string
		TLS          bool
		PID          int
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &said) != nil || said.URL != p.url || said.PID != p.cmd.Process.Pid || said.TLS {
		t.Fatalf("%v, %s", err, text)
	}
	p.kill()
	if r := p.cli("stream", "list"); r.code != 1 || !strings.Contains(r.err, "does not run any more") {
		t.Errorf("after a kill: %+v", r)
	}
	p = launch(t, dir)
	p.ok("stream", "list")
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is there after the end: %v", err)
	}
	if r := p.cli("stream", "list"); r.code != 1 || !strings.Contains(r.err, "no server runs") {
		t.Errorf("after the end: %+v", r)
	}
}
