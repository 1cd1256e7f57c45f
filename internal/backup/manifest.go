package backup

import (
	"path"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// Format is the version of the format that this program writes.
const Format = 1

// The names of the members.
const (
	headerName   = "header.json"
	manifestName = "manifest.json"
	metadataName = "metadata.db"
	lettersName  = deadletter.FileName
	keyName      = "secret.key"
	tokenName    = "token"
	queuesDir    = "queues"
)

// Header is the first member.
type Header struct {
	// Format is the version of the format, and Version that of the program.
	Format  int    `json:"format"`
	Version string `json:"version"`
}

// Manifest says what a backup holds.
type Manifest struct {
	Header
	CreatedAt time.Time `json:"createdAt"`
	// Installation is the id of the installation that was backed up.
	Installation string `json:"installation"`
	// Schemas are the versions of what is in it.
	Schemas Schemas `json:"schemas"`
	// WithKey and WithQueues are what was asked for.
	WithKey    bool `json:"withKey"`
	WithQueues bool `json:"withQueues"`
	// Streams are those that the metadata has.
	Streams []Stream `json:"streams"`
	// Members are all others but this.
	Members []Member `json:"members"`
}

// Schemas are versions of formats.
type Schemas struct {
	Metadata    int `json:"metadata"`
	DeadLetters int `json:"deadLetters"`
	Queue       int `json:"queue"`
}

// schemas are what this program writes.
func schemas() Schemas {
	return Schemas{metadata.SchemaVersion(), deadletter.SchemaVersion(), queue.FormatVersion}
}

// A Stream is one that was backed up.
type Stream struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Queue says that its queue is in the backup.
	Queue bool `json:"queue"`
}

// A Member is a file in a backup.
type Member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Has reports whether there is a member of that name.
func (m *Manifest) Has(name string) bool {
	for _, x := range m.Members {
		if x.Name == name {
			return true
		}
	}
	return false
}

// A NewerError says that a backup was written by a newer version.
type NewerError struct{ Version, What string }

// Error says what to do.
func (e *NewerError) Error() string {
	return "the backup was written by the newer version " + e.Version + " (" + e.What + "); restore it with that version"
}

// check reports a backup that this program does not understand.
func (m *Manifest) check() error {
	known := schemas()
	for _, x := range []struct {
		what          string
		theirs, known int
	}{
		{"metadata", m.Schemas.Metadata, known.Metadata},
		{"dead letters", m.Schemas.DeadLetters, known.DeadLetters},
		{"queues", m.Schemas.Queue, known.Queue},
	} {
		if x.theirs > x.known {
			return &NewerError{Version: m.Version, What: "its " + x.what}
		}
	}
	if m.Installation == "" || strings.ContainsAny(m.Installation, "/\\") {
		return errors.New("the manifest names no installation")
	}
	if !m.Has(metadataName) {
		return errors.Errorf("there is no %s in it", metadataName)
	}
	return nil
}

// plainNames are the members that are not of a queue.
var plainNames = map[string]bool{headerName: true, manifestName: true, metadataName: true, lettersName: true, keyName: true, tokenName: true}

// checkName reports a member that this program would not have written, so that nothing is written elsewhere.
func checkName(name string) error {
	if plainNames[name] {
		return nil
	}
	if parts := strings.Split(name, "/"); len(parts) == 3 && parts[0] == queuesDir && queue.IsSnapshotName(parts[2]) {
		if _, err := metadata.ParseID(parts[1]); err == nil {
			return nil
		}
	}
	return errors.Errorf("%q does not belong into a backup", name)
}

func queueMember(id, file string) string { return path.Join(queuesDir, id, file) }
