//go:build linux

package queue

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests use the real file system, and a process that is really killed.

const childEnv = "TAILRACE_QUEUE_CHILD"

// runChild appends from 16 goroutines until it is killed, and tells what was
// acknowledged, a line each: "writer number".
func runChild(dir string) {
	q, err := Open(Config{Dir: dir, Limits: Limits{MaxBytes: 1 << 20, Policy: Refuse}})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex // one write call a line: what was written before the kill is whole
	for w := range 16 {
		go func() {
			var g Group
			for i := 0; ; i++ {
				g.Reset()
				for part := range 1 + i%3 {
					if err := g.Add(KindOpaque, 1, fmt.Appendf(nil, "%d %d %d %s", w, i, part, strings.Repeat("y", i*37%900))); err != nil {
						panic(err)
					}
				}
				res, err := q.Reserve(&g)
				if err != nil {
					continue // full until the main goroutine has made room
				}
				if _, _, err := q.Append(nilCtx, res, &g); err != nil {
					continue
				}
				mu.Lock()
				fmt.Printf("%d %d\n", w, i)
				mu.Unlock()
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
	os.Exit(0)
}

// TestSIGKILL kills a process while it appends from 16 goroutines, and looks
// whether all that it said to have is there.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]bool{}
	seen := map[string]Sequence{}
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for round := range count(8, 200) {
		for _, line := range killedChild(t, dir, 50+rng.IntN(400)) {
			acked[fmt.Sprintf("%d %s", round, line)] = true
		}
		q, err := Open(Config{Dir: dir})
		require.NoError(t, err)
		blocks := drain(t, q)
		here := map[string]bool{}
		for _, b := range blocks {
			f := strings.Fields(string(b.Payload))
			id := fmt.Sprintf("%d %s %s", round, f[0], f[1])
			key := id + " " + f[2]
			require.Zero(t, seen[key], "delivered twice: %s", key)
			seen[key] = b.Sequence
			if b.Last {
				i, _ := strconv.Atoi(f[1])
				require.Equal(t, strconv.Itoa(i%3), f[2], "a group without its end")
				here[id] = true
			}
		}
		for id := range acked {
			require.True(t, here[id], "%s was acknowledged and is not there", id)
		}
		require.Zero(t, q.Stats().Lost[LostCorrupt])
		if n := len(blocks); n > 0 {
			require.NoError(t, q.Ack(blocks[n-1].Sequence))
		}
		clear(acked)
		require.NoError(t, q.Close())
	}
}

// killedChild lets a child acknowledge some groups and kills it. It returns what
// was acknowledged.
func killedChild(t *testing.T, dir string, lines int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var got []string
	s := bufio.NewScanner(out)
	for s.Scan() {
		require.False(t, strings.HasPrefix(s.Text(), "error"), s.Text())
		if got = append(got, s.Text()); len(got) == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	// The last line may be cut.
	if n := len(got); n > 0 && len(strings.Fields(got[n-1])) != 2 {
		got = got[:n-1]
	}
	return got
}

// needsMount skips a test with -short where mounting is not allowed; but not in CI, where nothing is left out.
func needsMount(t *testing.T) {
	t.Helper()
	if testing.Short() && os.Getenv("CI") == "" && os.Getenv("TAILRACE_CI") == "" {
		t.Skip("it mounts a tmpfs, for which it needs to be root")
	}
}

// TestENOSPC fills a small real file system in the middle of a block.
func TestENOSPC(t *testing.T) {
	t.Parallel()
	needsMount(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("it cannot mount a small tmpfs (%v): run it as root, or with -short", err)
	}
	// Detached, since a child of another test may hold our files until it has begun.
	defer func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	q, err := Open(Config{Dir: filepath.Join(dir, "q"), manual: true})
	require.NoError(t, err)
	c := &clocked{Queue: q}
	kept, failed := 0, 0
	for i := range 60 {
		if _, err := c.tryPut(30_000 + i); err == nil {
			kept++
		} else {
			require.ErrorIs(t, err, syscall.ENOSPC)
			failed++
		}
	}
	require.Positive(t, failed)
	require.Greater(t, kept, 20)
	blocks := drain(t, q)
	require.Len(t, blocks, kept)
	// The disk stays full until what is sent can be removed, and then it goes on.
	filler := filepath.Join(dir, "filler")
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // as much as fits
	_, err = c.tryPut(30_000)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, os.Remove(filler))
	require.NoError(t, q.Ack(blocks[kept-1].Sequence))
	q.writer.mu.Lock()
	require.NoError(t, q.writer.retire())
	q.writer.mu.Unlock()
	for range 10 {
		_, err := c.tryPut(30_000)
		require.NoError(t, err)
	}
	require.Len(t, drain(t, q), 10)
	require.Empty(t, q.Stats().Losses)
	require.NoError(t, q.Close())
}

// TestReadOnlyDirectory: an error that says what is wrong, and no panic.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	needsMount(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("it cannot mount a small tmpfs (%v): run it as root, or with -short", err)
	}
	// Detached, since a child of another test may hold our files until it has begun.
	defer func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	qdir := filepath.Join(dir, "q")
	q, err := Open(Config{Dir: qdir})
	require.NoError(t, err)
	put(t, q, "a v=1 1")
	require.NoError(t, q.Close())
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	q, err = Open(Config{Dir: qdir})
	require.NoError(t, err, "what is there can still be sent")
	c := &clocked{Queue: q}
	_, err = c.tryPut(10)
	require.ErrorIs(t, err, syscall.EROFS)
	require.ErrorContains(t, err, dir, "the error says where")
	require.Len(t, drain(t, q), 1)
	require.NoError(t, q.Ack(1))
	require.ErrorIs(t, q.Close(), syscall.EROFS, "the cursor cannot be saved, and that is said")
	_, err = Open(Config{Dir: filepath.Join(dir, "new")})
	require.ErrorIs(t, err, syscall.EROFS)
	rep, err := Inspect(Config{Dir: qdir}, true)
	require.NoError(t, err, "looking does not need to write")
	require.Equal(t, uint64(1), rep.UnsentBlocks)
}

// TestEMFILE runs in a process of its own, since it takes all descriptors.
func TestEMFILE(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestEMFILEChild$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"=emfile:"+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS: TestEMFILEChild")
}

func TestEMFILEChild(t *testing.T) {
	dir, ok := strings.CutPrefix(os.Getenv(childEnv), "emfile:")
	if !ok {
		t.Skip("started by TestEMFILE")
	}
	q, err := Open(Config{Dir: filepath.Join(dir, "q"), manual: true})
	require.NoError(t, err)
	put(t, q, "before")
	q.writer.mu.Lock()
	require.NoError(t, q.writer.park())
	q.writer.mu.Unlock()
	r, err := q.NewReader(0)
	require.NoError(t, err)

	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = 64
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			break
		}
		taken = append(taken, f)
	}
	c := &clocked{Queue: q}
	_, err = c.tryPut(10)
	require.ErrorIs(t, err, syscall.EMFILE)
	for range 20 {
		_, err = r.Next(t.Context())
		require.ErrorIs(t, err, syscall.EMFILE, "however often it is tried, nothing is given up")
	}
	_, err = Open(Config{Dir: filepath.Join(dir, "other")})
	require.ErrorIs(t, err, syscall.EMFILE)
	for _, f := range taken {
		require.NoError(t, f.Close())
	}
	_, err = c.tryPut(10)
	require.NoError(t, err, "it goes on")
	b, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "before", string(b.Payload))
	require.NoError(t, r.Close())
	require.Len(t, drain(t, q), 2)
	require.Empty(t, q.Stats().Losses)
	require.NoError(t, q.Close())
}
