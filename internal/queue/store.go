package queue

// Store keeps the queues of one data directory.
type Store struct{}

func (s *Store) forget(*Queue) {}

func (s *Store) admit(q *Queue, n int64) (*FullError, error) { return q.admit(n) }
