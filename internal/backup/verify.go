package backup

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"
)

// A DamagedError says that a file is no whole backup.
type DamagedError struct {
	Path   string
	Reason string
}

// Error says what to do.
func (e *DamagedError) Error() string {
	return e.Path + " is no whole backup: " + e.Reason + "; take another one, nothing was restored"
}

// Verify reads a backup as a whole, compares every sum, and returns its manifest. Its errors are
// *DamagedError, *NewerError, and those of the disk.
func Verify(path string) (Manifest, error) {
	return read(path, func(string, io.Reader) error { return nil })
}

// read reads a backup from a file, and gives each member but the documents to a function, which need not read
// it to its end.
func read(path string, each func(name string, content io.Reader) error) (m Manifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, errors.Wrap(err, "backup")
	}
	defer func() { _ = f.Close() }() // it was only read
	m, err = scan(f, each)
	var newer *NewerError
	var kept *writeError
	switch {
	case err == nil:
	case errors.As(err, &kept):
		err = kept.error
	case !errors.As(err, &newer):
		err = &DamagedError{Path: path, Reason: err.Error()}
	}
	return m, err
}

// writeError is an error of whoever was given a member.
type writeError struct{ error }

const (
	// maxDocument bounds the header and the manifest.
	maxDocument = 64 << 20
	// maxWindow bounds the memory that a file can make the decoder take.
	maxWindow = 64 << 20
)

// scan reads a backup from a stream.
func scan(r io.Reader, each func(name string, content io.Reader) error) (m Manifest, err error) {
	dec, err := zstd.NewReader(bufio.NewReader(r), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return m, err
	}
	defer dec.Close()
	in := tar.NewReader(dec)
	var seen []Member
	for {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return m, errors.New("it has no manifest: it was cut off")
		}
		if err != nil {
			return m, err
		}
		if err := checkName(head.Name); err != nil || head.Typeflag != tar.TypeReg {
			return m, errors.Errorf("%q does not belong into a backup", head.Name)
		}
		if (len(seen) == 0) != (head.Name == headerName) {
			return m, errors.Errorf("it does not begin with %s", headerName)
		}
		if head.Name == manifestName {
			if err := document(in, &m); err != nil {
				return m, err
			}
			break
		}
		sum := sha256.New()
		content := io.TeeReader(in, sum)
		if head.Name == headerName {
			var h Header
			if err := document(content, &h); err != nil {
				return m, err
			}
			if h.Format > Format {
				return m, &NewerError{Version: h.Version, What: "its format"}
			}
		} else if err := each(head.Name, content); err != nil {
			return m, err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return m, err
		}
		seen = append(seen, Member{head.Name, head.Size, hex.EncodeToString(sum.Sum(nil))})
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		return m, errors.New("something follows the manifest")
	}
	if _, err := io.Copy(io.Discard, dec); err != nil { // to the sum at the very end
		return m, err
	}
	if err := compare(seen, m.Members); err != nil {
		return m, err
	}
	return m, m.check()
}

// document reads a JSON document.
func document(r io.Reader, v any) error {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return err
	}
	if len(text) > maxDocument {
		return errors.New("its manifest is too large")
	}
	return errors.WithMessage(json.Unmarshal(text, v), "a document in it")
}

// compare holds what was read against what was written.
func compare(read, written []Member) error {
	if len(read) != len(written) {
		return errors.Errorf("it has %d members, and its manifest %d", len(read), len(written))
	}
	once := map[string]bool{}
	for i, got := range read {
		switch want := written[i]; {
		case got.Name != want.Name || got.Size != want.Size:
			return errors.Errorf("its manifest has %s (%d bytes) in the place of %s (%d bytes)", want.Name, want.Size, got.Name, got.Size)
		case got.SHA256 != want.SHA256:
			return errors.Errorf("the content of %s is damaged", got.Name)
		case once[got.Name]:
			return errors.Errorf("%s is in it twice", got.Name)
		}
		once[got.Name] = true
	}
	return nil
}
