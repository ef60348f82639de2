package tokens

import (
	"math"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/textcost"
)

// Model names a model as [aycoder.ModelNamer] does.
type Model struct {
	Provider string
	Name     string
}

// ModelOf returns the model that answers requests to client in which [aycoder.Request.Model] is
// name, which may be empty. Fields that client does not tell are empty.
func ModelOf(client aycoder.ModelClient, name string) Model {
	m := Model{Name: name}
	if n, ok := aycoder.As[aycoder.ModelNamer](client); ok {
		provider, model := n.ModelName()
		m.Provider = provider
		if name == "" {
			m.Name = model
		}
	}
	return m
}

// A scale estimates, for one model, how many tokens it counts for each estimated token of a group.
// It is a Kalman filter: a request tells the model's count for its mixture of groups, so that a
// conversation in English teaches little about Chinese, and a request with much of what was not yet
// seen gets a wide margin.
type scale struct {
	factor   [textcost.Groups]float64                  // estimates of the factors,
	cov      [textcost.Groups][textcost.Groups]float64 // and the covariance of their errors
	noise    float64                                   // the variance by which texts of the same mixture differ from each other
	observed int                                       // counts
}

const (
	// commonSpread is the standard deviation of what the factors of all groups have in common. With
	// the spread of words, it gives unknown models a margin of 1.35.
	commonSpread = 0.15
	// textNoise is the spread of texts, and patience how many counts it takes to trust another.
	textNoise = 0.067
	patience  = 12
	// oneSpread is by how much one text of few tokens may differ from all before it, as it may be of
	// another kind. Half of its variance is left at oneText tokens: of many texts, some make up for others.
	oneSpread = 0.12
	oneText   = 1000
	// maxNoise bounds what a few absurd counts can do, and minNoise keeps many equal ones from making
	// the filter certain, which would divide by 0.
	maxNoise = 0.25
	minNoise = 1e-4
	// minSpread is for the least margin, 1.05.
	minSpread = 0.025
	// window is the number of counts of which a factor is the average, as older ones fade. drift is
	// the part of the noise by which a factor must be expected to change for that.
	window = 8
	drift  = 4.0 / ((window + 1) * (window - 1))
	// mismatch is the factor by which a usage may differ from its estimate. Beyond that, it is not
	// taken as a count of the same request.
	mismatch = 8
	// maxModels is the maximum number of models that are remembered.
	maxModels = 1000
)

// spreads are the standard deviations of the factors over models, apart from what all groups have
// in common: of words, marks, white space, numbers, accents, each other alphabet, and all else.
var spreads = [textcost.Groups]float64{0.09, 0.12, 0.25, 0.35, 0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.5}

func newScale(m Model) scale {
	s := scale{noise: textNoise * textNoise}
	factor := 1.0
	if m.Provider == "anthropic" || m.Provider == "bedrock" {
		// Its vocabularies are not published. Reported counts are 10 % to 50 % above those of others.
		factor = 1.25
	}
	for i, own := range spreads {
		s.factor[i] = factor
		for j := range s.cov[i] {
			s.cov[i][j] = commonSpread * commonSpread
		}
		s.cov[i][i] += own * own
	}
	return s
}

// predict returns the factor for a text with these shares of the groups, the variance of its error,
// and the gain: how much of a difference is due to the factor of each group, times the variance.
func (s *scale) predict(share [textcost.Groups]float64) (factor, variance float64, gain [textcost.Groups]float64) {
	for i := range share {
		for j := range share {
			gain[i] += s.cov[i][j] * share[j]
		}
		factor += share[i] * s.factor[i]
		variance += share[i] * gain[i]
	}
	return factor, variance, gain
}

// of returns the factor and the margin for a text.
func (s *scale) of(text size) (factor, margin float64) {
	factor, variance, _ := s.predict(text.shares())
	if s.observed > 0 {
		variance += s.noise + oneSpread*oneSpread*oneText/(oneText+text.tokens())
	}
	return factor, 1 + 2*max(math.Sqrt(variance)/factor, minSpread)
}

// observe corrects the scale by the ratio of the count of a text to its estimate.
func (s *scale) observe(text size, ratio float64) {
	factor, variance, gain := s.predict(text.shares())
	total := variance + s.noise
	difference := ratio - factor
	s.observed++
	// The rest, which the factors do not explain, is noise.
	unexplained := min(max(difference*difference*s.noise/total, minNoise), maxNoise)
	s.noise += (unexplained - s.noise) / float64(min(s.observed, window)+patience)
	for i := range gain {
		s.factor[i] = min(max(s.factor[i]+gain[i]/total*difference, 1.0/mismatch), mismatch)
		for j := range gain {
			s.cov[i][j] += drift*s.noise - gain[i]*gain[j]/total
		}
	}
}

// scales holds what is known about each model. The zero value knows none. It is safe for concurrent use.
type scales struct {
	mu     sync.Mutex
	models map[Model]scale
}

func (s *scales) of(m Model, text size) (factor, margin float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.get(m)
	return known.of(text)
}

func (s *scales) get(m Model) scale {
	if known, ok := s.models[m]; ok {
		return known
	}
	return newScale(m)
}

// observe corrects the scale of a model that counted this many tokens for a text. It ignores counts
// that cannot be of the same request, such as 0.
func (s *scales) observe(m Model, text size, count int64) {
	if !plausible(text, count) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.get(m)
	next.observe(text, float64(count)/text.tokens())
	s.put(m, next)
}

// plausible reports whether a model may have counted this many tokens for a text.
func plausible(text size, count int64) bool {
	ratio := float64(count) / text.tokens()
	return ratio >= 1.0/mismatch && ratio <= mismatch // false without a text
}

func (s *scales) put(m Model, next scale) {
	if s.models == nil {
		s.models = map[Model]scale{}
	}
	if _, ok := s.models[m]; !ok && len(s.models) >= maxModels {
		for other := range s.models {
			delete(s.models, other)
			break
		}
	}
	s.models[m] = next
}
