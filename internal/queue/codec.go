package queue

import (
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"
)

// decoder turns stored payloads into what was given. Its zero value is ready; it
// is used by one goroutine.
type decoder struct{ zstd *zstd.Decoder }

// decode returns the payload in dst's array if it is large enough, or, where that
// is possible and alias is set, as a part of stored.
func (d *decoder) decode(h *blockHead, stored, dst []byte, alias bool) ([]byte, error) {
	var out []byte
	var err error
	switch h.Codec {
	case codecNone:
		if alias {
			out = stored
		} else {
			out = append(dst[:0], stored...)
		}
	case codecS2:
		// The length is checked first: it must not make us allocate at will.
		var n int
		if n, err = s2.DecodedLen(stored); err == nil && n == int(h.Raw) {
			out, err = s2.Decode(grow(dst[:0], n)[:n], stored)
		}
	case codecZstd:
		if d.zstd == nil {
			d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPayload), zstd.WithDecoderLowmem(true))
		}
		if err == nil {
			out, err = d.zstd.DecodeAll(stored, grow(dst[:0], int(h.Raw)))
		}
	default:
		err = errors.Errorf("unknown compression %d", h.Codec)
	}
	if err == nil && len(out) != int(h.Raw) {
		err = errors.Errorf("payload has %d bytes and not %d", len(out), h.Raw)
	}
	return out, err
}

func (d *decoder) close() {
	if d.zstd != nil {
		d.zstd.Close()
		d.zstd = nil
	}
}
