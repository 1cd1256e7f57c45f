package lineprotocol

import "github.com/pkg/errors"

// A KeyReader takes the keys (measurement and tags) of normalised lines apart, in place and without
// looking at the fields more closely than it takes to find the line's end. It is for whoever chooses
// between lines. The zero value is ready; it must not be used concurrently, and in the steady state it
// allocates nothing.
type KeyReader struct {
	scan  scanner
	buf   []byte
	names []byte // what was unescaped
}

// Read takes the line at the start of a block and returns its length, its line feed included.
func (k *KeyReader) Read(block []byte) (length int, err error) {
	k.buf = nil
	if len(block) == 0 || block[0] == '\n' || block[0] == ' ' {
		return 0, errors.Errorf("lineprotocol: a block is corrupt: %s", badMeasurement)
	}
	_, why := k.scan.key(block, 0)
	end := 0
	if why == fine {
		end, why = k.scan.lineEnd(block, k.scan.keyEnd)
	}
	if why != fine {
		return 0, errors.Errorf("lineprotocol: a block is corrupt: %s", why)
	}
	k.buf = block
	return end + 1, nil
}

// Measurement returns the measurement of the line read last, unescaped. It is valid until the next call
// of any method.
func (k *KeyReader) Measurement() []byte {
	raw := k.buf[k.scan.start:k.scan.measEnd]
	if !hasBackslash(raw) {
		return raw
	}
	k.names = appendName(k.names[:0], raw)
	return k.names
}

// Tags returns how many tags the line read last has.
func (k *KeyReader) Tags() int { return len(k.scan.tags) }

// Tag returns a tag of the line read last, unescaped. It is valid until the next call of any method.
func (k *KeyReader) Tag(i int) (key, value []byte) {
	t, v := k.scan.tags[i], k.scan.vals[i]
	key, value = k.buf[t.start:t.end], k.buf[v.start:v.end]
	k.names = k.names[:0]
	if hasBackslash(key) {
		k.names = appendName(k.names, key)
		key = k.names
	}
	if hasBackslash(value) {
		from := len(k.names)
		k.names = appendName(k.names, value)
		value = k.names[from:]
	}
	return key, value
}
