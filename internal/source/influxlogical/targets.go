package influxlogical

import "github.com/tailrace-cdc/tailrace/logical"

// Targets returns how many different targets the streams have.
func (s *Streams) Targets() int {
	targets := map[logical.Target]struct{}{}
	for _, stream := range s.All() {
		targets[stream.config.Target] = struct{}{}
	}
	return len(targets)
}
