package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// TestFromNothingToAReplayedDeadLetter is the way of a new user, by the commands that --help shows: a stream to
// a real InfluxDB 1.x, through an outage, to a dead letter that is read, mended there, and replayed.
func TestFromNothingToAReplayedDeadLetter(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, nil)
	db.Query(t, "", "CREATE DATABASE metrics")
	dir := t.TempDir()
	for _, args := range [][]string{{"--help"}, {"start", "--help"}, {"stream", "--help"}, {"stream", "create", "--help"}, {"stream", "deadletters", "--help"}} {
		r := tailrace(t, dir, "", nil, args...)
		if r.code != 0 || !strings.Contains(r.out, "tailrace") {
			t.Fatalf("%v: %+v", args, r)
		}
	}
	p := launch(t, t.TempDir(), "--retryDelay", "20ms")
	p.ok("stream", "create", "up", "--bucket", "plant", "--remoteURL", db.URL(), "--remoteBucket", "metrics", "--validate")
	p.ok("token", "create", "telegraf", "--scope", "write", "--bucket", "plant", "--to", dir+"/telegraf.token")
	write := func(body string) {
		t.Helper()
		if status, text, err := p.post(p.token(), "/api/v2/write?bucket=plant", body); err != nil || status != 204 {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	type shown struct {
		State                    string
		RemainingBytesToBeSynced int64
		DeadLetters              *int64
	}
	show := func() (s shown) {
		t.Helper()
		p.asked(&s, "stream", "show", "up")
		return s
	}
	count := func(field, measurement string) string {
		return fmt.Sprint(db.Query(t, "metrics", "SELECT count("+field+") FROM "+measurement))
	}
	write("weather temperature=21.5 1")
	eventually(t, time.Minute, "the first point does not arrive", func() bool { return strings.Contains(count("temperature", "weather"), " 1]") })

	db.Kill() // the network is away
	for i := range 20 {
		write(fmt.Sprintf("weather temperature=%d %d", i, i+2))
	}
	eventually(t, time.Minute, "nobody says that it is away", func() bool { s := show(); return s.State == "retrying" && s.RemainingBytesToBeSynced > 0 })
	if out := p.ok("stream", "list"); !strings.Contains(out, "retrying") {
		t.Errorf("the list does not show it:\n%s", out)
	}
	db.Restart(t)
	p.ok("stream", "flush", "up")
	eventually(t, time.Minute, "what waited does not arrive", func() bool { return strings.Contains(count("temperature", "weather"), " 21]") })

	write("weather temperature=\"warm\" 100") // it is a number there
	eventually(t, time.Minute, "no dead letter is counted", func() bool { n := show().DeadLetters; return n != nil && *n == 1 })
	var letters []struct {
		ID              int64
		Reason, Payload string
	}
	p.asked(&letters, "stream", "deadletters", "list", "up")
	if len(letters) != 1 || !strings.Contains(letters[0].Reason, "type") || !strings.Contains(letters[0].Payload, "warm") {
		t.Fatalf("the letters are %+v", letters)
	}
	id := fmt.Sprint(letters[0].ID)
	if out := p.ok("stream", "deadletters", "show", "up", id); !strings.Contains(out, `temperature="warm"`) {
		t.Errorf("the letter is shown as\n%s", out)
	}
	if r := p.cli("stream", "deadletters", "replay", "up", id); r.code != 1 {
		t.Errorf("what is refused again: %+v", r)
	}
	db.Query(t, "metrics", "DROP MEASUREMENT weather")
	if out := p.ok("stream", "deadletters", "replay", "up", "--all"); !strings.Contains(out, "1 dead letters written") {
		t.Errorf("replaying says %s", out)
	}
	eventually(t, time.Minute, "the letter does not arrive", func() bool { return strings.Contains(count("temperature", "weather"), " 1]") })
	if out := p.ok("stream", "deadletters", "list", "up"); !strings.Contains(out, "There are no dead letters") {
		t.Errorf("it is still there:\n%s", out)
	}
}
