// Package deadletter keeps the dead letters of loops whose targets cannot store them themselves, such as
// a remote InfluxDB: in one SQLite file of the data directory.
//
//	store, err := deadletter.Open(deadletter.Config{Path: filepath.Join(dataDir, deadletter.FileName)})
//	err = store.SetAside(ctx, letters)   // durable when it returns (DURABLE THERE)
//	list, err := store.ListDeadLetters(ctx, loop, 0, 100)
//
// A letter is stored before the consistent point passes its mutation, and a loop that was cut short in
// between sets it aside again. So of the letters of one loop that have one fingerprint the first is kept.
//
// How many bytes of letters a loop may have is the business of the loop.
//
// The file is written in WAL mode with synchronous=FULL, and may be read by its owner alone (0600): lines
// of measurements are nobody else's business.
package deadletter
