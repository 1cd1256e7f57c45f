package logical

import "time"

// A sourceWork is what a loop does with its source.
type sourceWork int

const (
	reading sourceWork = iota
	telling
	sourceWorks
)

func (w sourceWork) String() string {
	return [...]string{"reading", "telling it of progress"}[w]
}

// sourceFailed reports that the work failed, and is going to be tried again.
func (l *Loop) sourceFailed(work sourceWork, err error) {
	l.sourceErr(work, err)
	l.mu.Lock()
	n, say := l.srcLog.repeats(err.Error(), 1, time.Now())
	l.mu.Unlock()
	if say {
		l.log.Error("trouble with the source; trying again", "doing", work.String(), "error", err.Error(), "times", n)
	}
}

// sourceDid ends a run of failures of the work.
func (l *Loop) sourceDid(work sourceWork) {
	l.mu.Lock()
	failing := l.srcErrs[work] != nil
	l.mu.Unlock()
	if !failing {
		return
	}
	l.sourceErr(work, nil)
	l.mu.Lock()
	n := l.srcLog.n
	if l.status.SourceErr == nil {
		l.srcLog.reset()
	}
	l.mu.Unlock()
	l.log.Info("no more trouble with the source", "doing", work.String(), "failures", n)
}

// sourceErr keeps the last failure of the work. Each ends with its own success only: a source that is read may
// be deaf, and one that listens may have nothing to say.
func (l *Loop) sourceErr(work sourceWork, err error) {
	l.update(func(s *Status) {
		l.srcErrs[work] = err
		s.SourceErr = nil
		for _, err := range l.srcErrs {
			if err != nil {
				s.SourceErr = err
				return
			}
		}
	})
}
