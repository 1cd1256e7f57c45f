//go:build !race

package queue

// raceEnabled says that the race detector is on, which allocates for itself.
const raceEnabled = false
