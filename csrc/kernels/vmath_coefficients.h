/* Printed by vmath_coefficients.py; lowest power first. */
#ifndef PF_KERNELS_VMATH_COEFFICIENTS_H
#define PF_KERNELS_VMATH_COEFFICIENTS_H

/* exp x = 1 + x + x² P(x) on [-0.3467, 0.3467], error 3.1e-09 */
static const float PF_EXP_P[]
    __attribute__((unused)) = {0.49999994f, 0.166665211f, 0.0416682623f, 0.00836867467f, 0.00138210552f};
/* exp x - 1 = x + x² P(x) on [-0.3467, 0.3467], error 4.3e-10 */
static const float PF_EXPM1_P[] __attribute__((unused)) = {0.5f,           0.166666657f,   0.0416664928f,
                                                           0.00833354611f, 0.00139323273f, 0.000197616377f};
/* log(1 + x) = x - x²/2 + x³ P(x) on [-0.2929, 0.41422], error 7.7e-10 */
static const float PF_LOG_P[]
    __attribute__((unused)) = {0.333333135f,  -0.250000089f, 0.200020716f,  -0.166679904f, 0.142203614f,
                               -0.124062039f, 0.118834868f,  -0.116702445f, 0.0674958378f};
/* sin x = x + x³ P(x²) on [0.001, 0.7855], error 4.0e-09 */
static const float PF_SIN_P[] __attribute__((unused)) = {-0.166666552f, 0.00833218917f, -0.000195182845f};
/* cos x = 1 - x²/2 + x⁴ P(x²) on [0.002, 0.7855], error 1.2e-10 */
static const float PF_COS_P[] __attribute__((unused)) = {0.0416666456f, -0.00138873106f, 2.44325638e-05f};
/* asin x = x + x³ P(x²) on [0.001, 0.5], error 4.9e-09 */
static const float PF_ASIN_P[]
    __attribute__((unused)) = {0.166667521f, 0.0749531016f, 0.0454690196f, 0.0241855029f, 0.042157013f};
/* atan x = x + x³ P(x²) on [0.001, 0.41422], error 2.1e-08 */
static const float PF_ATAN_P[]
    __attribute__((unused)) = {-0.333329499f, 0.19977732f, -0.138778746f, 0.0805426463f};
/* sinh x = x + x³ P(x²) on [0.001, 1], error 3.0e-10 */
static const float PF_SINH_P[]
    __attribute__((unused)) = {0.166666672f, 0.00833331048f, 0.000198428956f, 2.78221319e-06f};
/* erf x = x + x P(x²) on [0.001, 1], error 1.4e-09 */
static const float PF_ERF_P[]
    __attribute__((unused)) = {0.128379166f,  -0.37612626f,    0.112835787f,   -0.0268533472f,
                               0.0051871622f, -0.00079978531f, 7.80690389e-05f};
/* log(1 - erf x) = P(x) on [1, 4], error 1.1e-09 */
static const float PF_ERFC_P[]
    __attribute__((unused)) = {-0.000341512583f, -1.12708926f,    -0.638144672f,  -0.103106923f,
                               0.0218381565f,    -0.00294768461f, 0.000186382371f};
/* erfc(x/√2)/2 = exp(-x²/2) P(x)/Q(x) on [0, 14.5], error 8.7e-09 */
static const float PF_GELU_P[]
    __attribute__((unused)) = {0.5f, 0.437599301f, 0.18268463f, 0.0404374041f, 0.00408420712f};
static const float PF_GELU_Q[]
    __attribute__((unused)) = {1.0f, 1.67308342f, 1.20029294f, 0.468008161f, 0.101368085f, 0.0102374675f};

#endif
