package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestEnvName(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"bindAddr": "TAILRACE_BIND_ADDR", "v": "TAILRACE_V", "targetDBConns": "TAILRACE_TARGET_DBCONNS",
		"tlsPrivateKey": "TAILRACE_TLS_PRIVATE_KEY",
	} {
		if got := EnvName(flag); got != want {
			t.Errorf("%s: got %s, want %s", flag, got, want)
		}
	}
}

func TestEnvironmentSetsWhatTheCommandLineDoesNot(t *testing.T) {
	var size Size = 10 << 20
	var wait time.Duration
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.Var(&size, "maxBodySize", "")
	set.DurationVar(&wait, "gracePeriod", time.Second, "")
	t.Setenv("TAILRACE_MAX_BODY_SIZE", "1MiB")
	t.Setenv("TAILRACE_GRACE_PERIOD", "5s")
	if err := set.Parse([]string{"--gracePeriod=7s"}); err != nil {
		t.Fatal(err)
	}
	if err := FromEnv(set); err != nil {
		t.Fatal(err)
	}
	if size != 1<<20 || wait != 7*time.Second {
		t.Errorf("got %d and %s, want 1 MiB from the environment and 7 s from the command line", size, wait)
	}
}

func TestBadEnvironmentIsNamed(t *testing.T) {
	var size Size
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.Var(&size, "maxBodySize", "")
	t.Setenv("TAILRACE_MAX_BODY_SIZE", "many")
	err := FromEnv(set)
	if err == nil || !strings.Contains(err.Error(), "TAILRACE_MAX_BODY_SIZE") || !strings.Contains(err.Error(), "10MiB") {
		t.Errorf("got %v, want the variable's name and what to write", err)
	}
}
