// Package metadata stores what an installation was told to do: organisations, buckets, remotes, streams
// and tokens, in one SQLite file.
//
//	store, err := metadata.Open(ctx, metadata.Config{Path: "…/metadata.db", Key: key})
//	remote, err := store.CreateRemote(ctx, metadata.Remote{OrgID: org, Name: "cloud", URL: "https://…", Secret: token})
//	remote, err = store.UpdateRemote(ctx, remote.ID, func(r *metadata.Remote) error { r.Name = "attic"; return nil })
//
// Every call is one transaction: it happens as a whole and durably, or not at all. An update reads,
// changes and writes within one transaction, so that two of them never overwrite each other.
//
// # Secrets
//
// Of a token only its SHA-256 is stored; tokens have 256 random bits, so that there is nothing to guess.
// The secrets of remotes are encrypted by AES-256-GCM with a key that is not in the file, and bound to
// their remote: a copy of the database gives nothing away, and a secret cannot be moved to a remote at
// another address by editing the file. Without the key (or with another one) a remote is still there,
// its [Remote.SecretMissing] set.
//
// # Errors
//
// [NotFoundError], [ConflictError], [InUseError] and [InvalidError] say what a caller did wrong; any
// other error is the disk's.
package metadata
