package installation

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// listeningName is the file that says where the server listens.
const listeningName = "listening.json"

// Listening says where the server of a data directory can be reached, for commands beside it.
type Listening struct {
	// URL is the server's, by a name that its certificate has; Address is the socket's.
	URL     string `json:"url"`
	Address string `json:"address"`
	// TLS says that it speaks HTTPS.
	TLS bool `json:"tls"`
	// PID is the process.
	PID int `json:"pid"`
}

// Announce writes where the server listens. The returned function takes that back.
func (in *Installation) Announce(l Listening) (withdraw func() error, err error) {
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return nil, errors.Wrap(err, "installation")
	}
	path := in.Path(listeningName)
	return func() error { return errors.WithStack(os.Remove(path)) }, WriteFile(path, append(text, '\n'))
}

// ReadListening returns where the server of a data directory listens, or did when it was killed. The error is
// os.ErrNotExist if none runs.
func ReadListening(dir string) (l Listening, err error) {
	path := filepath.Join(dir, listeningName)
	text, err := os.ReadFile(path)
	if err != nil {
		return l, errors.WithStack(err)
	}
	if err := json.Unmarshal(text, &l); err != nil || l.URL == "" {
		return l, errors.Errorf("%s does not say where a server listens; restart the server, or name it with --host", path)
	}
	return l, nil
}

// TokenPath returns the path of the operator's token in a data directory.
func TokenPath(dir string) string { return filepath.Join(dir, "token") }
