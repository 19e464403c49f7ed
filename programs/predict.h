/* `dlrun predict`: a trained model applied to arrays of any size. */
#ifndef DLC_PREDICT_H
#define DLC_PREDICT_H

/* argv[0] is "predict". Returns the exit status. */
int dl_predict_main(int argc, char **argv);
#endif
