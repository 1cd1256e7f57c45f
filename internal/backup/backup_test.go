package backup

import (
	"bytes"
	"context"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is an installation without a server: real files, and one stream.
type site struct {
	t       testing.TB
	in      *installation.Installation
	store   *metadata.Store
	letters *deadletter.Store
	queues  *queue.Store
	queue   *queue.Queue
	stream  metadata.Stream
	key     []byte
}

const remoteSecret = "the-secret-of-the-remote"

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t}
	var err error
	s.in, err = installation.Open(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	s.key, err = s.in.SecretKey()
	require.NoError(t, err)
	_, _, err = s.in.Token()
	require.NoError(t, err)
	s.store, err = metadata.Open(t.Context(), metadata.Config{Path: s.in.Path(metadataName), Key: s.key})
	require.NoError(t, err)
	_, err = s.store.Seed(t.Context(), metadata.Seed{
		Org: metadata.Org{Name: "o"}, Bucket: metadata.Bucket{Name: "b"},
		Remote: metadata.Remote{Name: "r", URL: "http://there:8086", Secret: remoteSecret}, Stream: metadata.Stream{Name: "up", Opened: true},
	})
	require.NoError(t, err)
	streams, err := s.store.Streams(t.Context(), metadata.StreamFilter{})
	require.NoError(t, err)
	s.stream = streams[0]
	s.letters, err = deadletter.Open(deadletter.Config{Path: s.in.Path(deadletter.FileName)})
	require.NoError(t, err)
	s.queues, err = queue.OpenStore(queue.StoreConfig{Dir: s.in.Path("replicationq")})
	require.NoError(t, err)
	s.queue, err = s.queues.Open(s.stream.ID.String(), queue.Config{})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, close := range []func() error{s.queues.Close, s.letters.Close, s.store.Close, s.in.Close} {
			require.NoError(t, close())
		}
	})
	return s
}

func (s *site) put(payload string) queue.Sequence {
	s.t.Helper()
	var g queue.Group
	require.NoError(s.t, g.Add(queue.KindLineProtocol, 1, []byte(payload)))
	r, err := s.queue.Reserve(&g)
	require.NoError(s.t, err)
	_, last, err := s.queue.Append(context.Background(), r, &g)
	require.NoError(s.t, err)
	return last
}

func (s *site) loop(installation string) string { return installation + "/" + s.stream.ID.String() }

func (s *site) aside(line string) {
	s.t.Helper()
	require.NoError(s.t, s.letters.SetAside(s.t.Context(), []logical.DeadLetter{{
		Loop: s.loop(s.in.ID()), Table: "m", Op: logical.OpUpsert, Payload: []byte(line), Reason: "no", Time: time.Unix(1, 0),
	}}))
}

func (s *site) source() Source {
	return Source{
		Version: "test", Installation: s.in.ID(), Dir: s.in.Dir(), Metadata: s.store, Letters: s.letters,
		Queue: func(id string) (*queue.Snapshot, error) {
			if id != s.stream.ID.String() {
				return nil, os.ErrNotExist
			}
			return s.queue.Snapshot()
		},
	}
}

// save makes a backup in a new file.
func (s *site) save(o Options) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "x.backup")
	_, err := Save(path, func(w io.Writer) error {
		_, err := Create(s.t.Context(), w, s.source(), o)
		return err
	})
	require.NoError(s.t, err)
	left, err := os.ReadDir(s.in.Dir())
	require.NoError(s.t, err)
	for _, e := range left {
		require.False(s.t, strings.HasPrefix(e.Name(), Scratch), "%s is left", e.Name())
	}
	return path
}

// TestRestoredIsWhatWas: ACKED, NOTHING SILENT. With queues and key everything comes back: what waits, the
// letters, the secrets. Without, the stream has no queue, and the secret cannot be read.
func TestRestoredIsWhatWas(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {WithQueues: true}, {WithKey: true}, {WithQueues: true, WithKey: true}} {
		for _, same := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v %v", o, same), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				gone := s.put("m v=1 1")
				s.put("m v=2 2")
				s.put("m v=3 3")
				require.NoError(t, s.queue.Ack(gone))
				s.aside("m v=\"text\" 0")
				file := s.save(o)
				info, err := os.Stat(file)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

				dir := filepath.Join(t.TempDir(), "new", "data")
				now := time.Unix(1_800_000_000, 0)
				report, err := Restore(t.Context(), RestoreConfig{From: file, Dir: dir, SameInstallation: same, Now: func() time.Time { return now }})
				require.NoError(t, err)
				in, err := installation.Open(dir)
				require.NoError(t, err)
				defer func() { require.NoError(t, in.Close()) }()
				require.Equal(t, report.RestoredAs, in.ID())
				require.Equal(t, same, in.ID() == s.in.ID())

				_, err = os.Stat(in.Path(keyName))
				require.Equal(t, o.WithKey, err == nil)
				_, err = os.Stat(in.Path(tokenName))
				require.Equal(t, o.WithKey, err == nil)
				key, err := in.SecretKey()
				require.NoError(t, err)
				store, err := metadata.Open(t.Context(), metadata.Config{Path: in.Path(metadataName), Key: key})
				require.NoError(t, err)
				defer func() { require.NoError(t, store.Close()) }()
				stream, err := store.Stream(t.Context(), s.stream.ID)
				require.NoError(t, err)
				require.Equal(t, s.stream, stream)
				r, err := store.Remote(t.Context(), stream.RemoteID)
				require.NoError(t, err)
				require.Equal(t, !o.WithKey, r.SecretMissing)
				if o.WithKey {
					require.Equal(t, remoteSecret, r.Secret)
				}
				letters, err := deadletter.Open(deadletter.Config{Path: in.Path(deadletter.FileName)})
				require.NoError(t, err)
				defer func() { require.NoError(t, letters.Close()) }()
				list, err := letters.ListDeadLetters(t.Context(), s.loop(in.ID()), 0, 10)
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, "m v=\"text\" 0", string(list[0].Payload))

				queueDir := in.Path("replicationq", s.stream.ID.String())
				if _, err := os.Stat(queueDir); !o.WithQueues {
					require.ErrorIs(t, err, os.ErrNotExist)
					return
				}
				q, err := queue.Open(queue.Config{Dir: queueDir})
				require.NoError(t, err)
				defer func() { require.NoError(t, q.Close()) }()
				require.Equal(t, s.queue.ID(), q.ID())
				require.Empty(t, q.Stats().Lost)
				require.Greater(t, q.Next(), queue.Sequence(now.Unix())<<20, "numbers that the old queue may use")
				reader, err := q.NewReader(0)
				require.NoError(t, err)
				defer func() { require.NoError(t, reader.Close()) }()
				for _, want := range []string{"m v=2 2", "m v=3 3"} {
					b, err := reader.Next(t.Context())
					require.NoError(t, err)
					require.Equal(t, want, string(b.Payload))
				}
			})
		}
	}
}

// TestSecretsAreNotInABackupWithoutTheKey unpacks it and looks.
func TestSecretsAreNotInABackupWithoutTheKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	token, _, err := s.in.Token()
	require.NoError(t, err)
	key, err := os.ReadFile(s.in.Path(keyName))
	require.NoError(t, err)
	secrets := map[string]string{"the remote's secret": remoteSecret, "the token": token, "the key": strings.TrimSpace(string(key))}
	holds := func(o Options) (found []string) {
		var all bytes.Buffer
		f, err := os.Open(s.save(o))
		require.NoError(t, err)
		defer func() { _ = f.Close() }()
		_, err = scan(f, func(name string, content io.Reader) error {
			_, err := io.Copy(&all, content)
			return err
		})
		require.NoError(t, err)
		for what, text := range secrets {
			if bytes.Contains(all.Bytes(), []byte(text)) {
				found = append(found, what)
			}
		}
		return found
	}
	require.Empty(t, holds(Options{WithQueues: true}))
	require.ElementsMatch(t, []string{"the token", "the key"}, holds(Options{WithKey: true}))
}

// TestDamagedBackupsAreRefused flips bytes, and cuts the file at every length: nothing is written.
func TestDamagedBackupsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 20 {
		s.put(fmt.Sprintf("m v=%d %d", i, i))
	}
	s.aside("a letter")
	whole, err := os.ReadFile(s.save(Options{WithQueues: true, WithKey: true}))
	require.NoError(t, err)
	dir := t.TempDir()
	refused := func(what string, content []byte) {
		t.Helper()
		file, into := filepath.Join(dir, "damaged"), filepath.Join(dir, "data")
		require.NoError(t, os.WriteFile(file, content, 0o600))
		_, err := Restore(t.Context(), RestoreConfig{From: file, Dir: into})
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := os.Stat(into); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: something was written: %v", what, err)
		}
	}
	unpacked := func(packed []byte) []byte {
		dec, err := zstd.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil
		}
		defer dec.Close()
		plain, err := io.ReadAll(dec)
		if err != nil {
			return nil
		}
		return plain
	}
	content := unpacked(whole)
	require.NotEmpty(t, content)
	step := 7
	if os.Getenv("TAILRACE_SOAK") != "" {
		step = 1
	}
	for at := 0; at < len(whole); at += step {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		if bytes.Equal(unpacked(flipped), content) {
			continue // a bit that stands for nothing
		}
		refused(fmt.Sprintf("byte %d", at), flipped)
	}
	for n := 0; n < len(whole); n += 3 * step {
		refused(fmt.Sprintf("cut at %d", n), whole[:n])
	}
	refused("something behind it", append(bytes.Clone(whole), "more"...))
}

// forge writes an archive member by member.
func forge(t *testing.T, do func(a *archive)) string {
	t.Helper()
	var b bytes.Buffer
	a, err := newArchive(&b)
	require.NoError(t, err)
	do(a)
	require.NoError(t, a.close())
	file := filepath.Join(t.TempDir(), "forged")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	return file
}

// TestForgedBackupsAreRefused: names that lead elsewhere, members twice or too few, newer versions.
func TestForgedBackupsAreRefused(t *testing.T) {
	t.Parallel()
	head := Header{Format: Format, Version: "9.9"}
	manifest := func(a *archive) Manifest {
		return Manifest{Header: head, Installation: "8c3f3f0e-8f6f-4c1c-9a63-7d8a4c3b8a11", Schemas: schemas(), Members: a.members}
	}
	good := func(a *archive) {
		require.NoError(t, a.document(headerName, head))
		require.NoError(t, a.content(metadataName, []byte("x")))
	}
	for name, c := range map[string]struct {
		do   func(a *archive)
		want string
	}{
		"newer format": {func(a *archive) { require.NoError(t, a.document(headerName, Header{Format + 1, "9.9"})) }, "newer version 9.9 (its format)"},
		"newer metadata": {func(a *archive) {
			good(a)
			m := manifest(a)
			m.Schemas.Metadata++
			require.NoError(t, a.document(manifestName, m))
		}, "newer version 9.9 (its metadata)"},
		"newer queues": {func(a *archive) {
			good(a)
			m := manifest(a)
			m.Schemas.Queue++
			require.NoError(t, a.document(manifestName, m))
		}, "newer version 9.9 (its queues)"},
		"no header":   {func(a *archive) { require.NoError(t, a.content(metadataName, []byte("x"))) }, "does not begin with"},
		"no manifest": {good, "was cut off"},
		"a way out":   {func(a *archive) { good(a); require.NoError(t, a.content("../../etc/passwd", []byte("x"))) }, "does not belong into a backup"},
		"a way out by a queue": {func(a *archive) {
			good(a)
			require.NoError(t, a.content("queues/../cursor", []byte("x")))
		}, "does not belong into a backup"},
		"a foreign file": {func(a *archive) { good(a); require.NoError(t, a.content("installation.json", []byte("x"))) }, "does not belong into a backup"},
		"twice": {func(a *archive) {
			good(a)
			require.NoError(t, a.content(metadataName, []byte("y")))
			require.NoError(t, a.document(manifestName, manifest(a)))
		}, "is in it twice"},
		"no metadata": {func(a *archive) {
			require.NoError(t, a.document(headerName, head))
			require.NoError(t, a.document(manifestName, manifest(a)))
		}, "there is no metadata.db"},
		"another sum": {func(a *archive) {
			good(a)
			a.members[1].SHA256 = strings.Repeat("0", 64)
			require.NoError(t, a.document(manifestName, manifest(a)))
		}, "content of metadata.db is damaged"},
		"a member that the manifest lacks": {func(a *archive) {
			good(a)
			m := manifest(a)
			m.Members = m.Members[:1]
			require.NoError(t, a.document(manifestName, m))
		}, "has 2 members, and its manifest 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			_, err := Restore(t.Context(), RestoreConfig{From: forge(t, c.do), Dir: dir})
			require.ErrorContains(t, err, c.want)
			_, err = os.Stat(dir)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// TestRestoreNeedsAnEmptyDirectory, and one that was filled in part is refused by whoever would use it.
func TestRestoreNeedsAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.save(Options{WithQueues: true})
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	_, err := Restore(t.Context(), RestoreConfig{From: file, Dir: dir})
	require.NoError(t, err, "a file system of its own is as good as empty")
	_, err = Restore(t.Context(), RestoreConfig{From: file, Dir: dir})
	require.ErrorContains(t, err, "not empty")

	part := t.TempDir()
	r, err := installation.Restore(part)
	require.NoError(t, err)
	_, err = installation.Open(part)
	require.ErrorAs(t, err, new(*installation.LockedError), "while it is being restored")
	require.NoError(t, r.Abandon())
	_, err = installation.Open(part)
	require.ErrorAs(t, err, new(*installation.HalfRestoredError))
	_, err = Restore(t.Context(), RestoreConfig{From: file, Dir: part})
	require.ErrorContains(t, err, "not empty") // the lock, or what had been written

	queues := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(queues, "x"), nil, 0o600))
	_, err = Restore(t.Context(), RestoreConfig{From: file, Dir: filepath.Join(t.TempDir(), "d"), QueueDir: queues})
	require.ErrorContains(t, err, "not empty")
}

// TestSaveLeavesNothingHalf: what fails, or is there already, is not touched, and what is left over is replaced.
func TestSaveLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "x.backup")
	create := func(w io.Writer) error {
		_, err := Create(t.Context(), w, s.source(), Options{})
		return err
	}
	_, err := Save(path, func(w io.Writer) error { return stderrors.Join(create(w), errors.New("in the end")) })
	require.ErrorContains(t, err, "in the end")
	_, err = Save(path, func(w io.Writer) error { _, err := w.Write([]byte("half a backup")); return err })
	require.ErrorAs(t, err, new(*DamagedError))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, os.WriteFile(path+Partial, []byte("of one that was killed"), 0o600))
	m, err := Save(path, create)
	require.NoError(t, err)
	require.Equal(t, "test", m.Version)
	_, err = Save(path, create)
	require.ErrorContains(t, err, "exists already")
}

// TestSweepRemovesWhatWasLeft, and nothing else.
func TestSweepRemovesWhatWasLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{Scratch + "123", "replicationq"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "x"), 0o700))
	}
	require.NoError(t, Sweep(dir))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "replicationq", left[0].Name())
}

// FuzzScan reads anything as a backup: it ends, and believes nothing that is not as it was written.
func FuzzScan(f *testing.F) {
	s := newSite(f)
	s.put("m v=1 1")
	whole, err := os.ReadFile(s.save(Options{WithQueues: true}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, text []byte) {
		read := map[string]bool{}
		m, err := scan(bytes.NewReader(text), func(name string, content io.Reader) error {
			if err := checkName(name); err != nil {
				t.Fatalf("%q is given to be written", name)
			}
			read[name] = true
			_, err := io.Copy(io.Discard, io.LimitReader(content, 1<<20))
			return err
		})
		if err == nil && !read[metadataName] {
			t.Fatalf("a backup without metadata is whole: %+v", m)
		}
	})
}
