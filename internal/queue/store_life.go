package queue

import (
	"path/filepath"

	"github.com/pkg/errors"
)

// This file has the life of a store's queues. Each name belongs to one Open, one
// Delete or one open queue at a time, and a store is not closed before all of them
// have come to their end: its lock covers what they do.

// Open opens the queue in the directory of that name, or makes one. Dir and FS of
// the configuration are set by the store; Name is the directory's if it is empty.
// That one queue cannot be opened is its own error, and disturbs no other. A queue
// whose store was closed meanwhile is closed again, which is ErrClosed.
func (s *Store) Open(name string, cfg Config) (*Queue, error) {
	if err := s.claim(name); err != nil {
		return nil, err
	}
	defer s.busy.Done()
	cfg.Dir, cfg.FS, cfg.guard = filepath.Join(s.dir, name), s.fs, s
	if cfg.Name == "" {
		cfg.Name = name
	}
	q, err := Open(cfg)
	s.mu.Lock()
	closed := s.closed
	switch {
	case err != nil:
		delete(s.queues, name)
	case !closed:
		s.queues[name] = q
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if closed {
		err = q.Close()
		s.release(name)
		if err != nil {
			return nil, err
		}
		return nil, ErrClosed
	}
	return q, nil
}

// Delete removes a queue that is not open, with all that is in it. While it runs
// the queue cannot be opened.
func (s *Store) Delete(name string) error {
	if err := s.claim(name); err != nil {
		return err
	}
	defer s.busy.Done()
	defer s.release(name)
	dir := filepath.Join(s.dir, name)
	for _, d := range []string{filepath.Join(dir, asideName), dir} {
		if err := s.remove(d); err != nil {
			return errors.Wrapf(err, "queue: delete %s", name)
		}
	}
	return errors.Wrapf(s.fs.SyncDir(s.dir), "queue: delete %s", name)
}

// remove removes a directory and the files in it. That something is gone already is
// no error.
func (s *Store) remove(dir string) error {
	entries, err := s.fs.List(dir)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.fs.Remove(filepath.Join(dir, e.Name)); err != nil && !isNotExist(err) {
			return err
		}
	}
	if err := s.fs.Remove(dir); err != nil && !isNotExist(err) {
		return err
	}
	return nil
}

// claim takes a name for an Open or Delete, which ends with busy.Done, and gives the
// name to a queue or releases it.
func (s *Store) claim(name string) error {
	if name == "" || name != filepath.Base(name) || name == lockName || name[0] == '.' {
		return errors.Errorf("queue: %q cannot be the name of a queue's directory", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if q, taken := s.queues[name]; taken && q == nil {
		return errors.Errorf("queue: %s is being opened or deleted, try again when that is done", name)
	} else if taken {
		return errors.Errorf("queue: %s is open, close it first", name)
	}
	s.queues[name] = nil
	s.busy.Add(1)
	return nil
}

// release gives a name back that belongs to no queue.
func (s *Store) release(name string) {
	s.mu.Lock()
	delete(s.queues, name)
	s.mu.Unlock()
}

// forget is called by a queue that was closed.
func (s *Store) forget(q *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := filepath.Base(q.dir); s.queues[name] == q {
		delete(s.queues, name)
	}
}

// List returns the names of the queues in the directory, open or not.
func (s *Store) List() ([]string, error) {
	entries, err := s.fs.List(s.dir)
	if err != nil {
		return nil, errors.Wrap(err, "queue: list data directory")
	}
	var names []string
	for _, e := range entries {
		if e.Mode.IsDir() {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// Close closes all queues, those included that are being opened, and waits for them
// and for what is being deleted. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.gone
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	defer close(s.gone)
	s.busy.Wait()
	s.mu.Lock()
	var open []*Queue
	for _, q := range s.queues {
		if q != nil {
			open = append(open, q)
		}
	}
	s.mu.Unlock()
	var first error
	for _, q := range open {
		if err := q.Close(); first == nil {
			first = err
		}
	}
	if err := s.lock.Close(); first == nil {
		first = err
	}
	return first
}
