package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"quire.dev/services/edge/internal/fault"
)

func TestKindSurvivesWrapping(t *testing.T) {
	cause := errors.New("disk")
	err := fmt.Errorf("write: %w", fault.New(fault.Unavailable, "try again").Because(cause))
	if fault.KindOf(err) != fault.Unavailable || !errors.Is(err, cause) {
		t.Errorf("%v lost its kind or cause", err)
	}
	if fault.KindOf(cause) != fault.Internal || fault.Kind("new").Status() != 500 {
		t.Error("what has no kind is not internal")
	}
}
