package metadata

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"

	"github.com/pkg/errors"
)

// KeySize is how many bytes Config.Key has.
const KeySize = 32

// sealed is how a secret is stored: a version, a nonce, and the ciphertext.
//
//	0x01 | nonce (12) | AES-256-GCM(secret; additional data: "remote " + ID + " secret")
const sealedVersion = 1

// A vault encrypts the secrets of remotes.
type vault struct{ aead cipher.AEAD }

func newVault(key []byte) (vault, error) {
	if len(key) != KeySize {
		return vault{}, errors.Errorf("metadata: the key for secrets has %d bytes, want %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return vault{}, errors.Wrap(err, "metadata: key for secrets")
	}
	aead, err := cipher.NewGCM(block)
	return vault{aead}, errors.Wrap(err, "metadata: key for secrets")
}

func boundTo(id ID) []byte { return []byte("remote " + id.String() + " secret") }

// seal encrypts the secret of a remote. The empty secret is nothing.
func (v vault) seal(id ID, secret string) []byte {
	if secret == "" {
		return nil
	}
	out := make([]byte, 1+v.aead.NonceSize(), 64+len(secret))
	out[0] = sealedVersion
	_, _ = rand.Read(out[1:]) // it never fails
	return v.aead.Seal(out, out[1:], []byte(secret), boundTo(id))
}

// open decrypts what seal returned; ok is false if the key is another one, or the text was changed.
func (v vault) open(id ID, sealed []byte) (secret string, ok bool) {
	if len(sealed) == 0 {
		return "", true
	}
	head := 1 + v.aead.NonceSize()
	if len(sealed) < head || sealed[0] != sealedVersion {
		return "", false
	}
	plain, err := v.aead.Open(nil, sealed[1:head], sealed[head:], boundTo(id))
	return string(plain), err == nil
}
