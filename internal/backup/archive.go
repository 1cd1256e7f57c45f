package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"
)

// An archive is a backup that is being written.
type archive struct {
	zstd    *zstd.Encoder
	tar     *tar.Writer
	members []Member
}

func newArchive(w io.Writer) (*archive, error) {
	enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, errors.Wrap(err, "backup")
	}
	return &archive{zstd: enc, tar: tar.NewWriter(enc)}, nil
}

// add adds a member, and keeps its sum.
func (a *archive) add(name string, size int64, content io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(head); err != nil {
		return errors.Wrapf(err, "backup: %s", name)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(a.tar, sum), content)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return errors.Wrapf(err, "backup: %s", name)
	}
	a.members = append(a.members, Member{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (a *archive) content(name string, content []byte) error {
	return a.add(name, int64(len(content)), bytes.NewReader(content))
}

func (a *archive) document(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return errors.Wrap(err, "backup")
	}
	return a.content(name, append(text, '\n'))
}

func (a *archive) file(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Wrap(err, "backup")
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return errors.Wrap(err, "backup")
	}
	return a.add(name, info.Size(), f)
}

// close ends the file.
func (a *archive) close() error {
	if err := a.tar.Close(); err != nil {
		return errors.Wrap(err, "backup")
	}
	return errors.Wrap(a.zstd.Close(), "backup")
}

// abandon frees what an unfinished archive holds, without ending it. It does nothing after close.
func (a *archive) abandon() { a.zstd.Reset(nil) }
