// Package retry spaces out the tries of something that fails.
//
//	r := retry.New(retry.Config{Base: 100 * time.Millisecond, Max: 30 * time.Second})
//	for {
//		err := try()
//		if err == nil {
//			break
//		}
//		if err := r.Wait(ctx, err); err != nil {
//			return err // ctx is done
//		}
//	}
//	r.Reset()
//
// The delay is drawn evenly between zero and a bound that doubles with every failure, from Base up
// to Max (full jitter): loops that failed together do not come back together.
//
// A target that asked to be left alone for a while (logical.RetryAfterOf) is left alone for at least
// that long, and the jittered delay is added, for the same reason.
//
// [Retry.Kick] ends a wait early: a probe has found the target healthy again, or an operator wants to
// see the next try now. It never cuts short what the target asked for. A kick while nobody waits
// ends the next wait, because the try under way may have failed before things healed.
package retry
