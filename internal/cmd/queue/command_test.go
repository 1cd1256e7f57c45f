package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	cmdqueue "github.com/tailrace-cdc/tailrace/internal/cmd/queue"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs the command and returns what it wrote.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := cmdqueue.Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

// newQueue makes a queue with four groups, of which the first was sent.
func newQueue(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "q")
	q, err := queue.Open(queue.Config{Dir: dir})
	require.NoError(t, err)
	for _, lines := range []string{"a v=1 1\n", "b v=2 2", "c v=3 3\nd v=4 4\n", "e v=5 5"} {
		var g queue.Group
		require.NoError(t, g.Add(queue.KindLineProtocol, 1, []byte(lines)))
		res, err := q.Reserve(&g)
		require.NoError(t, err)
		_, _, err = q.Append(context.Background(), res, &g)
		require.NoError(t, err)
	}
	require.NoError(t, q.Ack(1))
	require.NoError(t, q.Close())
	return dir
}

func segment(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// damage flips a bit of the second of the blocks, whose payloads are not compressed.
func damage(t *testing.T, dir string) {
	t.Helper()
	b, err := os.ReadFile(segment(t, dir))
	require.NoError(t, err)
	at := bytes.Index(b, []byte("c v=3"))
	require.Positive(t, at)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(segment(t, dir), b, 0o600))
}

func TestStatShowsWhatIsUnsent(t *testing.T) {
	t.Parallel()
	dir := newQueue(t)
	out, err := run(t, "stat", dir)
	require.NoError(t, err)
	require.Contains(t, out, "3 blocks, 3 points")
	require.Contains(t, out, "2 to 4")
	out, err = run(t, "stat", "--json", dir)
	require.NoError(t, err)
	var rep queue.Report
	require.NoError(t, json.Unmarshal([]byte(out), &rep))
	require.Equal(t, queue.Sequence(1), rep.Cursor)
	require.Equal(t, uint64(3), rep.UnsentBlocks)
	require.True(t, rep.Closed)
}

func TestDumpWritesLineProtocol(t *testing.T) {
	t.Parallel()
	dir := newQueue(t)
	out, err := run(t, "dump", dir)
	require.NoError(t, err)
	require.Equal(t, "b v=2 2\nc v=3 3\nd v=4 4\ne v=5 5\n", out, "payloads are not run together")
	out, err = run(t, "dump", "--all", dir)
	require.NoError(t, err)
	require.Contains(t, out, "a v=1 1\nb v=2 2\n")
	out, err = run(t, "dump", "--json", dir)
	require.NoError(t, err)
	require.Contains(t, out, `"sequence":2`)
	require.Contains(t, out, `"payload":"b v=2 2"`)
}

func TestVerifyFailsOnDamageAndRepairDeclaresIt(t *testing.T) {
	t.Parallel()
	dir := newQueue(t)
	_, err := run(t, "verify", dir)
	require.NoError(t, err)
	damage(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
	out, err := run(t, "verify", dir)
	require.Error(t, err)
	require.Equal(t, exit.Failure, exit.Code(err))
	require.Contains(t, out, "damaged")
	require.Contains(t, out, "notes.txt")
	out, err = run(t, "dump", dir)
	require.Error(t, err, "a dump that lacks something says so")
	require.Contains(t, out, "e v=5 5", "and writes what is good")

	out, err = run(t, "repair", dir)
	require.NoError(t, err)
	require.Contains(t, out, "sequences 3 to 3, 1 blocks")
	kept, err := os.ReadDir(filepath.Join(dir, "aside"))
	require.NoError(t, err)
	require.Len(t, kept, 2, "the damaged bytes and the file that does not belong")
	out, err = run(t, "stat", "--json", dir)
	require.NoError(t, err)
	var rep queue.Report
	require.NoError(t, json.Unmarshal([]byte(out), &rep))
	require.Equal(t, uint64(1), rep.Lost[queue.LostCorrupt].Blocks)
	require.Zero(t, rep.Missing)

	out, err = run(t, "repair", "--json", dir)
	require.NoError(t, err)
	require.NotContains(t, out, "declared", "once is enough")
}

// TestCutSegmentIsReportedPlainly cuts the segment in the third of four blocks.
func TestCutSegmentIsReportedPlainly(t *testing.T) {
	t.Parallel()
	dir := newQueue(t)
	b, err := os.ReadFile(segment(t, dir))
	require.NoError(t, err)
	at := bytes.Index(b, []byte("c v=3"))
	require.Positive(t, at)
	require.NoError(t, os.Truncate(segment(t, dir), int64(at+2)))
	for _, args := range [][]string{{"verify", dir}, {"verify", "--json", dir}} {
		out, err := run(t, args...)
		require.Error(t, err)
		require.Contains(t, out, "sequences 3 to 4 are missing before this place, 2 blocks")
		require.Contains(t, out, "the file ends here")
	}
	out, err := run(t, "dump", dir)
	require.ErrorContains(t, err, "2 blocks are missing")
	require.Contains(t, out, "b v=2 2\n")
	out, err = run(t, "repair", dir)
	require.NoError(t, err)
	require.Contains(t, out, "declared lost: sequences 3 to 4, 2 blocks, 0 points at least (corrupt)")
	out, err = run(t, "stat", dir)
	require.NoError(t, err)
	require.Contains(t, out, "lost: sequences 3 to 4, 2 blocks")
	require.NotContains(t, out, "missing")
	out, err = run(t, "stat", "--json", dir)
	require.NoError(t, err)
	var rep queue.Report
	require.NoError(t, json.Unmarshal([]byte(out), &rep))
	require.Equal(t, uint64(2), rep.Lost[queue.LostCorrupt].Blocks)
	require.Zero(t, rep.Missing)
}

func TestInUseIsRefused(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	store, err := queue.OpenStore(queue.StoreConfig{Dir: data})
	require.NoError(t, err)
	_, err = store.Open("s1", queue.Config{})
	require.NoError(t, err)
	for _, verb := range []string{"stat", "verify", "dump", "repair"} {
		_, err := run(t, verb, filepath.Join(data, "s1"))
		require.ErrorContains(t, err, "in use by another process", verb)
		require.ErrorContains(t, err, "stop the server", verb)
	}
	require.NoError(t, store.Close())
	_, err = run(t, "verify", filepath.Join(data, "s1"))
	require.NoError(t, err)
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"stat"}, {"stat", "a", "b"}, {"verify", "--what", "x"}, {"nothing"}} {
		_, err := run(t, args...)
		require.Equal(t, exit.Misuse, exit.Code(err), "%v: %v", args, err)
	}
	_, err := run(t, "stat", filepath.Join(t.TempDir(), "not there"))
	require.Equal(t, exit.Failure, exit.Code(err))
}
