package logical

import (
	"encoding/hex"
	"testing"
)

// TestFingerprintStaysTheSame: stores keep it, so another version has to come to the same.
func TestFingerprintStaysTheSame(t *testing.T) {
	t.Parallel()
	letter := DeadLetter{ID: 7, Loop: "l", Stamp: []byte(`{"seq":1}`), Table: "s.cpu", Key: []byte{0, 1}, Payload: []byte("v=1"), Reason: "no"}
	// printf '\0\0\0\0\0\0\0\x09{"seq":1}\0\0\0\0\0\0\0\x05s.cpu\0\0\0\0\0\0\0\x02\0\x01\0\0\0\0\0\0\0\x03v=1' | sha256sum
	const want = "9797ea2cc8bd583a289d6849a4105481e6c7bb4ac5a309aa09c2a70134ff5cec"
	sum := letter.Fingerprint()
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	letter.Position = 258 // and \0\0\0\0\0\0\x01\x02 behind it
	const later = "046a7d23cb5b61eb6cdb465d948dcce99f80e31a9dc88dfc2467be5b7b84d437"
	sum = letter.Fingerprint()
	if got := hex.EncodeToString(sum[:]); got != later {
		t.Errorf("further on in its transaction: got %s, want %s", got, later)
	}
}

func TestOpsHaveNames(t *testing.T) {
	t.Parallel()
	for op := OpUpsert; op <= OpFill; op++ {
		if OpNamed(op.String()) != op {
			t.Errorf("%s is read back as %s", op, OpNamed(op.String()))
		}
	}
	for _, name := range []string{"", "Upsert", "op(99)"} {
		if op := OpNamed(name); op != 0 {
			t.Errorf("%q is %s", name, op)
		}
	}
}
