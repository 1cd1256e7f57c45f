// Package backup writes and restores backups of an installation: what its users made, the dead letters that
// it keeps, and, if asked for, the queues and the key.
//
//	manifest, err := backup.Create(ctx, w, source, backup.Options{WithQueues: true})
//	manifest, err = backup.Verify("tailrace.backup")
//	report, err := backup.Restore(ctx, backup.RestoreConfig{From: "tailrace.backup", Dir: dir})
//
// A backup is a tar file, compressed by zstd:
//
//	header.json              which format it has; always the first
//	metadata.db              organisations, buckets, remotes, streams, tokens
//	queues/ID/cursor, …      with queues: the files of each
//	deadletters.db           if there are any
//	secret.key, token        with the key
//	manifest.json            what it holds, with the SHA-256 of each; always the last
//
// A file without its manifest is none that ended as it should, and is refused; so is one in which a single
// byte of a member is another. docs/backup.md is the same for users.
//
// The members come in an order in which nothing can be missing: the queues of the streams that the metadata
// has, and then the dead letters, so that a write is in its queue, or a letter, or was delivered (PREFIX).
package backup
