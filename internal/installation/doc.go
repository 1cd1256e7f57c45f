// Package installation owns the data directory of a server: who may use it, what is in it, and which
// installation it is.
//
//	tailrace-data/
//	    installation.json   version of the layout, and the installation's id, made at its first start
//	    lock                held by the process that uses the directory
//	    listening.json      where the running server listens; gone when it has ended
//	    restoring           a backup is being restored, or was in part only
//	    token               the operator's API token, mode 0600
//	    metadata.db         buckets, remotes, streams and tokens (package metadata)
//	    secret.key          encrypts the remotes' secrets in metadata.db, mode 0600: back it up elsewhere
//	    target.db           the embedded target
//	    replicationq/ID/    the queue of each stream
//
// A directory is used by one process at a time; a second one gets a [LockedError].
package installation
