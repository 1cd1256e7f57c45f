package importcmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

const input = "m f=1 1\nthis is no line\nm f=2 2\n"

// importInto runs the command against a server that takes everything, and returns how many writes it got.
func importInto(t *testing.T, args ...string) (writes int64, err error) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	cmd := Command()
	cmd.SetArgs(append([]string{"--host", server.URL, "--token", "t"}, args...))
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return n.Load(), err
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.lp")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func requireContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func requireRefused(t *testing.T, writes int64, err error, hint string) {
	t.Helper()
	require.ErrorContains(t, err, hint)
	require.Equal(t, exit.Misuse, exit.Code(err))
	require.Zero(t, writes, "something was sent before")
}

func TestRejectsOfAnEarlierImportAreKept(t *testing.T) {
	t.Parallel()
	file, rejected := write(t, input), filepath.Join(t.TempDir(), "bad.lp")
	args := []string{"--skipErrors", "--rejectFile", rejected}
	writes, err := importInto(t, append(args, file)...)
	require.NoError(t, err)
	require.Equal(t, int64(1), writes)
	requireContent(t, rejected, "this is no line\n")

	writes, err = importInto(t, append(args, write(t, "another bad line\n"))...)
	requireRefused(t, writes, err, "move it away")
	requireContent(t, rejected, "this is no line\n")

	_, err = importInto(t, append(args[1:], write(t, "m f=1 1\n"))...)
	require.NoError(t, err, "without --skipErrors there is no reject file")
}

func TestInputIsNeverTheRejectFile(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"with lines": input, "empty": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, content)
			link := filepath.Join(t.TempDir(), "link.lp")
			require.NoError(t, os.Symlink(file, link))
			for _, path := range []string{file, link} {
				writes, err := importInto(t, "--skipErrors", "--rejectFile", path, write(t, input), file)
				requireRefused(t, writes, err, "one of the files to import")
				requireContent(t, file, content)
			}
		})
	}
}

func TestRejectFileMayBeEmptyOrADevice(t *testing.T) {
	t.Parallel()
	empty := write(t, "")
	_, err := importInto(t, "--skipErrors", "--rejectFile", empty, write(t, input))
	require.NoError(t, err)
	requireContent(t, empty, "this is no line\n")
	_, err = importInto(t, "--skipErrors", "--rejectFile", os.DevNull, write(t, input))
	require.NoError(t, err)
	writes, err := importInto(t, "--skipErrors", "--rejectFile", t.TempDir(), write(t, input))
	requireRefused(t, writes, err, "directory")
}

// TestRejectFileThatAppearsMeanwhile shows that the check before the import is not the only one.
func TestRejectFileThatAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	r := rejects{path: filepath.Join(t.TempDir(), "bad.lp")}
	require.NoError(t, r.check(nil))
	require.NoError(t, os.WriteFile(r.path, []byte("of another\n"), 0o600))
	require.ErrorContains(t, r.add([]byte("mine\n")), "not empty")
	require.NoError(t, r.close())
	requireContent(t, r.path, "of another\n")
}

// TestBatchEndsAtOneMebibyte shows what --help says of --batchLines.
func TestBatchEndsAtOneMebibyte(t *testing.T) {
	t.Parallel()
	line := `m f="` + strings.Repeat("x", 60_000) + `" 1` + "\n"
	writes, err := importInto(t, "--batchLines", "1000", write(t, strings.Repeat(line, 30)))
	require.NoError(t, err)
	require.Greater(t, writes, int64(1))
}
